package work

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/runtime/meter"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// provider is where the model of a runtime is asked, and with which key.
func provider(r events.Runtime, secrets map[string]secret.Value) (url string, key secret.Value, err error) {
	m := r.Model
	key, ok := secrets[m.KeyEnv]
	if !ok {
		return "", key, tool.Fail(tool.Permanent,
			"put the key into the file "+m.KeyEnv+" of the folder that INSPAN_MCP_SECRETS names for the toolrunner",
			fmt.Errorf("runtime %s needs the secret %s, which this toolrunner does not have", r.Name, m.KeyEnv))
	}
	url = m.URL
	if own, ok := secrets[m.BaseEnv]; ok {
		url = own.Reveal()
	}
	return url, key, nil
}

// meter serves the requests of the program for its model, and returns the variables that lead it there; nil where the
// program asks by itself.
func (p *prompting) meter(ctx context.Context, c tool.Call, b *bridge) (*meter.Meter, []string, error) {
	r := *p.agent.Runtime
	if r.Model == nil {
		return nil, nil, nil
	}
	url, key, err := provider(r, p.secrets)
	if err != nil {
		return nil, nil, err
	}
	m, err := meter.New(ctx, meter.Config{Model: *r.Model, URL: url, Key: key, Inner: c.Env.Inner, Asks: b.pulse.waits})
	if err != nil {
		return nil, nil, tool.Fail(tool.Permanent, "correct the file of the runtime, or the secret "+r.Model.BaseEnv,
			fmt.Errorf("runtime %s: %w", r.Name, err))
	}
	if c.Env.Local != nil {
		if base, ok := c.Env.Local(m); ok {
			return m, m.Env(base), nil
		}
	}
	m.Close()
	return nil, nil, tool.Fail(tool.Denied,
		"give the agent sandbox.network.allowed_hosts: what is served for the program is served at the proxy",
		errors.New("the sandbox "+string(c.Env.Sandbox.Mode())+" has no address at which the program could ask its model"))
}

// direct are the variables of a program that asks its model by itself, as it does where it is tried by hand.
func direct(r events.Runtime, secrets map[string]secret.Value) ([]string, error) {
	if r.Model == nil {
		return nil, nil
	}
	url, key, err := provider(r, secrets)
	if err != nil {
		return nil, err
	}
	return []string{r.Model.BaseEnv + "=" + url, r.Model.KeyEnv + "=" + key.Reveal()}, nil
}
