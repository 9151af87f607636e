package agentfile

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
)

// Policy is what a station lays down for all of its agents: guard rules between the built-in ones and those of an
// agent, and hooks that are asked before those of an agent. No agent can take a hook of the station back.
type Policy struct {
	Rules []events.Rule
	Hooks []events.Hook
	// Digest is the hex SHA-256 of the file; empty where there is none.
	Digest string
}

// ParsePolicy reads a policy: YAML with "version: 1", "rules" and "hooks", both in the form of agent files. It is as
// strict as Parse. name is the file's name, for messages.
func ParsePolicy(name string, data []byte) (Policy, []Warning, error) {
	p := &parsing{file: name}
	policy := p.policy(p.plain(data, nil))
	policy.Digest = events.HashOf(data)
	warnings, err := p.found()
	if err != nil {
		return Policy{}, warnings, err
	}
	return policy, warnings, nil
}

func (p *parsing) policy(root *node) Policy {
	return Policy{Rules: p.rules(root.child("rules"), map[string]bool{}), Hooks: p.hooks(root.child("hooks"))}
}

// plain reads a file that is nothing but YAML, with the keys of a policy and more.
func (p *parsing) plain(data []byte, more map[string]field) *node {
	root := p.yaml(data, MaxFrontmatter)
	if root == nil {
		return &node{kind: isMap}
	}
	keys := map[string]field{"version": acts(whole(1, 1)), "rules": acts(guardsShape()), "hooks": acts(hooksShape())}
	maps.Copy(keys, more)
	p.walk(root, mapping(keys), inForce)
	if root.child("version") == nil {
		p.fail(&Error{Code: CodeMissing, Path: "version", Message: "the key is missing", Expected: "version: 1"})
	}
	return root
}

// yaml reads a file that is nothing but YAML and has at most so many bytes; nil where that cannot be.
func (p *parsing) yaml(data []byte, most int) *node {
	if len(data) > most {
		p.fail(&Error{Code: CodeLimit, Message: "the file is too large", Expected: fmt.Sprintf("at most %d bytes", most),
			Actual: fmt.Sprint(len(data))})
		return nil
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		p.fail(&Error{Code: CodeFile, Message: "the file is not UTF-8 text"})
		return nil
	}
	root, err := readTree(strings.ReplaceAll(string(data), "\r\n", "\n"), 1)
	if err != nil {
		p.failErr(inSettings(err))
		return nil
	}
	return root
}

// LoadPolicy reads the policy of a file; an empty path is an empty policy.
func LoadPolicy(path string) (Policy, []Warning, error) {
	if path == "" {
		return Policy{}, nil, nil
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > MaxFrontmatter {
		return Policy{}, nil, &Error{Code: CodeLimit, File: filepath.Base(path), Message: "the file is too large",
			Expected: fmt.Sprintf("at most %d bytes", MaxFrontmatter), Actual: fmt.Sprint(info.Size())}
	}
	if err != nil {
		return Policy{}, nil, fmt.Errorf("policy of the station: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Policy{}, nil, fmt.Errorf("policy of the station: %w", err)
	}
	return ParsePolicy(filepath.Base(path), data)
}
