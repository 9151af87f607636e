package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"

	lazily "github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

const secretScanSchema = `{"type":"object","additionalProperties":false,"properties":{
"path":{"type":"string","maxLength":4096,"description":"file or folder to scan, the workspace if absent"},
"glob":{"type":"string","maxLength":1024,"description":"only files whose path matches, for example **/*.env"},
"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"most findings, 200 if absent"}}}`

type secretScanArgs struct {
	Path, Glob string
	Limit      int
}

// suspicion is a pattern of secrets. The group of the pattern is the secret, or all of it where there is none.
type suspicion struct {
	name string
	re   lazily.Pattern
	// random wants a value that does not look like a word or a placeholder.
	random bool
}

// suspicions are tried in this order; a line is reported once.
var suspicions = []suspicion{
	{"private-key", lazily.New(`-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----`), false},
	{"aws-access-key", lazily.New(`\b((?:AKIA|ASIA)[A-Z0-9]{16})\b`), false},
	{"github-token", lazily.New(`\b((?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})`), false},
	{"gitlab-token", lazily.New(`\b(glpat-[A-Za-z0-9_-]{20,})`), false},
	{"slack-token", lazily.New(`\b(xox[abeprs]-[A-Za-z0-9-]{10,})`), false},
	{"stripe-key", lazily.New(`\b([rs]k_live_[A-Za-z0-9]{16,})`), false},
	{"google-api-key", lazily.New(`\b(AIza[A-Za-z0-9_-]{35})`), false},
	{"model-api-key", lazily.New(`\b(sk-(?:ant-|proj-)?[A-Za-z0-9_-]{24,})`), true},
	{"json-web-token", lazily.New(`\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})`), false},
	{"nats-seed", lazily.New(`\b(S[UAOCNX][A-Z2-7]{56})\b`), false},
	{"password-in-address", lazily.New(`[a-z][a-z0-9+.-]*://[^/\s:@'"]{1,64}:([^/\s:@'"]{4,128})@`), true},
	{"assigned-secret", lazily.New(`(?i)[a-z0-9_.-]*(?:password|passwd|secret|api_?key|access_?key|auth_?token|private_?key)["']?\s*(?::=|[:=])\s*["']?([A-Za-z0-9+/=_!@#%^*.~-]{8,200})`), true},
}

func secretScan(ctx context.Context, a secretScanArgs, env tool.Env) (tool.Result, error) {
	globs := pattern{"**"}
	if a.Glob != "" {
		var err error
		if globs, err = parsePattern(a.Glob); err != nil {
			return failed("secret_scan: invalid glob %q: %v", a.Glob, err), nil
		}
	}
	dir := "."
	if a.Path != "" {
		dir = path.Clean(a.Path)
	}
	if !fs.ValidPath(dir) {
		return fileError("secret_scan", a.Path, sandbox.ErrOutside)
	}
	s := scanner{left: a.Limit}
	if s.left == 0 {
		s.left = grepLimit
	}
	all, err := walk(ctx, env, dir, func(f found) error {
		if !globs.match(f.name) && !globs.match(f.base) {
			return nil
		}
		return s.file(ctx, f)
	})
	more := ""
	switch {
	case errors.Is(err, errEnough):
		more = "(truncated: more findings than the limit)\n"
	case err != nil:
		return fileError("secret_scan", a.Path, err)
	}
	summary := fmt.Sprintf("%d findings in %d files scanned, %d files skipped (binary, or larger than %d MiB)", s.found,
		s.files, s.skipped, maxSearched>>20)
	return tool.Show(env, s.out.String()+more+summary+notSearched(all)), nil
}

type scanner struct {
	left, found, files, skipped int
	out                         strings.Builder
}

func (s *scanner) file(ctx context.Context, f found) error {
	data, ok := f.read()
	if !ok {
		s.skipped++
		return nil
	}
	name := f.name
	s.files++
	at := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		at++
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rule, value := suspect(line[:min(len(line), maxMatched)])
		if rule == "" {
			continue
		}
		if s.left == 0 {
			return errEnough
		}
		s.left--
		s.found++
		fmt.Fprintf(&s.out, "%s:%d: %s: %s\n", oneLine(name), at, rule, hint(value))
	}
	return nil
}

// suspect names the rule that a line matches, and the text that matched.
func suspect(line string) (rule, value string) {
	for _, r := range suspicions {
		m := r.re.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if value = m[len(m)-1]; r.random && placeholder(value) {
			continue
		}
		return r.name, value
	}
	return "", ""
}

var standIn = lazily.New(`(?i)example|changeme|placeholder|your[_-]|redacted|dummy|xxxx|\*\*\*|\.\.\.|^(?:true|false|null|none|nil)$|^[a-z_.]*(?:env|getenv|config|process)\b`)

// placeholder reports whether a value looks like a word or a stand-in rather than like a secret: little is random in
// it.
func placeholder(value string) bool {
	if standIn.MatchString(value) {
		return true
	}
	counts := map[rune]float64{}
	for _, r := range value {
		counts[r]++
	}
	entropy := 0.0
	for _, n := range counts {
		p := n / float64(len(value))
		entropy -= p * math.Log2(p)
	}
	return entropy < 2.3 || !strings.ContainsAny(value, "0123456789!@#%^*")
}

// hint is enough of a secret to find it, and not enough to use it.
func hint(value string) string {
	if strings.HasPrefix(value, "-----BEGIN") {
		return value
	}
	return fmt.Sprintf("%s*** (%d characters)", value[:min(4, len(value)/4)], len(value))
}
