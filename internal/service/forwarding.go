package service

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/inspan/inspan/internal/secret"
)

// Forwarding: of the gateway, which sends the events of the station to a program of others.
type Forwarding struct {
	ForwardURL     string       `envconfig:"INSPAN_FORWARD_URL" desc:"where the gateway sends the events of the station as CloudEvents, such as https://plane.example.com/events; empty for nowhere; see forward.md"`
	ForwardSecret  secret.Value `envconfig:"INSPAN_FORWARD_SECRET" desc:"what signs them, at least 16 bytes; INSPAN_FORWARD_SECRET_FILE names a file with it"`
	ForwardState   string       `envconfig:"INSPAN_FORWARD_STATE" desc:"file in which the program gateway keeps how far it is; inspan up has one in its store"`
	ForwardKinds   []string     `envconfig:"INSPAN_FORWARD_KINDS" desc:"types of events that are sent, such as run.*,gate.*, comma separated; empty for all"`
	ForwardFrom    string       `envconfig:"INSPAN_FORWARD_FROM" default:"now" desc:"where it begins without a file of how far it is: now, with what comes, or start, with all that the log has"`
	ForwardPrivate bool         `envconfig:"INSPAN_FORWARD_PRIVATE" default:"false" desc:"true lets the address be a private or loopback one, and http"`
}

// forwardingTraits are those of the variables of forwarding. A project has no say in where events go.
func forwardingTraits() map[string]trait {
	return map[string]trait{
		"INSPAN_FORWARD_URL":     {key: "forward.url"},
		"INSPAN_FORWARD_SECRET":  {key: "forward.secret"},
		"INSPAN_FORWARD_STATE":   {key: "forward.state", path: true},
		"INSPAN_FORWARD_KINDS":   {key: "forward.kinds"},
		"INSPAN_FORWARD_FROM":    {key: "forward.from"},
		"INSPAN_FORWARD_PRIVATE": {key: "forward.private"},
	}
}

func (f *Forwarding) check() error {
	var errs []error
	for _, k := range f.ForwardKinds {
		if _, err := path.Match(k, ""); err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_FORWARD_KINDS: %q is no pattern such as run.*", k))
		}
	}
	if f.ForwardFrom != "" && f.ForwardFrom != "now" && f.ForwardFrom != "start" {
		errs = append(errs, fmt.Errorf("INSPAN_FORWARD_FROM is %q, want now or start", f.ForwardFrom))
	}
	if f.ForwardURL != "" && f.ForwardSecret.Empty() {
		errs = append(errs, errors.New("INSPAN_FORWARD_SECRET is not set: the events are signed with it"))
	}
	if f.ForwardState != "" {
		at, err := filepath.Abs(f.ForwardState)
		if err != nil {
			errs = append(errs, fmt.Errorf("INSPAN_FORWARD_STATE: %w", err))
		}
		f.ForwardState = at
	}
	return errors.Join(errs...)
}
