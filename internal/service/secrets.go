package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/oauth"
	"github.com/inspan/inspan/internal/secret"
)

// ServerSecrets reads the secrets of MCP servers: what is masked, and each by its name. A folder that Kubernetes mounts
// has its own files beside them, whose names begin with a dot.
func (c *Calls) ServerSecrets() (masked []secret.Value, byName map[string]secret.Value, err error) {
	if c.MCPSecrets == "" {
		return nil, nil, nil
	}
	entries, err := os.ReadDir(c.MCPSecrets)
	if err != nil {
		return nil, nil, fmt.Errorf("INSPAN_MCP_SECRETS: %w", err)
	}
	byName = map[string]secret.Value{}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.MCPSecrets, e.Name()))
		if err != nil {
			return nil, nil, fmt.Errorf("INSPAN_MCP_SECRETS: %w", err)
		}
		v := secret.New(string(data))
		if len(v.Reveal()) < shortestSecret {
			return nil, nil, fmt.Errorf("INSPAN_MCP_SECRETS: the file %s has less than %d characters", e.Name(), shortestSecret)
		}
		if g, ok := oauth.Parse(v.Reveal()); ok {
			if byName[e.Name()], err = g.Secret(filepath.Join(c.MCPSecrets, e.Name())); err != nil {
				return nil, nil, fmt.Errorf("INSPAN_MCP_SECRETS: %w", err)
			}
			masked = append(masked, g.Masked()...)
			continue
		}
		byName[e.Name()] = v
		masked = append(masked, v)
		if _, token, ok := strings.Cut(v.Reveal(), " "); ok && len(token) >= shortestSecret {
			masked = append(masked, secret.New(token)) // the token of "Bearer TOKEN"
		}
	}
	return masked, byName, nil
}
