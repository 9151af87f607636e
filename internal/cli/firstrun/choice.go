package firstrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/secret"
)

// offer is a way to a model.
type offer struct {
	title string
	// model is the one to begin with, as provider/name; empty for none at all.
	model string
	// key has a key asked for.
	key bool
	// base is the address of a server that speaks the OpenAI API, where the settings do not have it yet; other has it
	// asked for.
	base  string
	other bool
}

// found is what a person chose; the zero value is no model.
type found struct {
	model string
	// key was typed; it is empty where the environment or a file has it.
	key  secret.Value
	base string
}

// choose has a person choose a model, and tries it.
func (s *setup) choose(ctx context.Context) (found, error) {
	offers := s.offers(ctx)
	p := s.App.Paint()
	for {
		fmt.Fprintln(s.App.Out, p.Bold("Which model shall agents use?"))
		for i, o := range offers {
			fmt.Fprintf(s.App.Out, "  %s  %s\n", p.Cyan(fmt.Sprintf("%2d", i+1)), o.title)
		}
		i, err := s.number(ctx, "Number", len(offers))
		if err != nil {
			return found{}, err
		}
		got, ok, err := s.take(ctx, offers[i])
		if err != nil || ok {
			return got, err
		}
		fmt.Fprintln(s.App.Out)
	}
}

// offers lists what is there, best first, then what can be had.
func (s *setup) offers(ctx context.Context) []offer {
	var there, more []offer
	for _, p := range catalog.Providers() {
		o := offer{title: p.Title, model: p.Model}
		if s.App.IsSet(p.Variable) {
			o.title += ": its key is set"
			there = append(there, o)
			continue
		}
		o.title, o.key = o.title+": with a key from "+p.Keys, true
		more = append(more, o)
	}
	if base := s.App.Lookup("INSPAN_OPENAI_BASE_URL", ""); base != "" {
		there = append(there, offer{title: "the server at " + app.HideSecrets(base),
			model: "openai/" + first(modelsAt(ctx, base))})
	} else if names := modelsAt(ctx, ollama()); len(names) > 0 {
		there = append(there, offer{title: "Ollama on this machine: " + view.Clip(strings.Join(names, ", "), 60),
			model: "openai/" + names[0], base: ollama()})
	}
	return append(append(there, more...),
		offer{title: "another server that speaks the OpenAI API", model: "openai/", other: true},
		offer{title: "none for now: the demo needs none"})
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// take asks for what an offer lacks and tries it. ok is false where another is to be chosen.
func (s *setup) take(ctx context.Context, o offer) (got found, ok bool, err error) {
	if o.model == "" {
		return found{}, true, nil
	}
	got.base = o.base
	if o.other {
		if got.base, err = s.ask(ctx, "Address", "http://127.0.0.1:8080/v1"); err != nil {
			return got, false, err
		}
		o.model, o.key = "openai/"+first(modelsAt(ctx, got.base)), true
	}
	provider, name, _ := strings.Cut(o.model, "/")
	for {
		if o.key {
			if got.key, err = s.askKey(ctx, o, provider); err != nil {
				return got, false, err
			}
			if got.key.Empty() && !o.other {
				return got, false, nil
			}
		}
		if name, err = s.ask(ctx, "Model", name); err != nil {
			return got, false, err
		}
		got.model = provider + "/" + strings.TrimPrefix(name, provider+"/")
		then, err := s.try(ctx, got)
		if err != nil || then == useIt {
			return got, err == nil, err
		}
		if then == another {
			return found{}, false, nil
		}
	}
}

// askKey asks for a key without showing it.
func (s *setup) askKey(ctx context.Context, o offer, provider string) (secret.Value, error) {
	p := s.App.Paint()
	hint := " (it is not shown; Enter goes back)"
	if o.other {
		hint = " (it is not shown; Enter for none)"
	}
	if c, ok := catalog.Find(provider); ok && s.App.IsSet(c.Variable) && os.Getenv(c.Standard()) != "" {
		fmt.Fprintln(s.App.Out, p.Yellow("  "+c.Standard()+" is set and goes before what you type here: unset it later."))
	}
	text, err := s.read.Secret(ctx, p.Bold("Key")+p.Dim(hint)+": ")
	return secret.New(text), err
}

// ollama is where Ollama listens, as its own programs look for it.
func ollama() string {
	host := strings.TrimSuffix(os.Getenv("OLLAMA_HOST"), "/")
	if host == "" {
		host = "127.0.0.1:11434"
	}
	if !strings.Contains(host, "://") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "11434")
		}
		host = "http://" + host
	}
	return host + "/v1"
}

// Limits of the look at a server that speaks the OpenAI API.
const (
	lookWait   = 700 * time.Millisecond
	maxListing = 1 << 20
	maxNames   = 20
)

// modelsAt asks such a server for the names of its models; none where it does not answer.
func modelsAt(ctx context.Context, base string) []string {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/models", http.NoBody)
	if err != nil {
		return nil
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxListing))
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err = errors.Join(err, json.Unmarshal(body, &list)); err != nil || answer.StatusCode != http.StatusOK {
		return nil
	}
	var names []string
	for _, m := range list.Data {
		if m.ID != "" && m.ID == terminal.Sanitize(m.ID) && len(m.ID) < 200 && len(names) < maxNames {
			names = append(names, m.ID)
		}
	}
	return names
}
