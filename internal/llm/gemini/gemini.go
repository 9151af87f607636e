// Package gemini asks Google's Gemini API (generateContent) as an llm.Model.
//
// Promises: every request streams; an answer without a finish reason is an error, never an answer. Raw is the content
// of the candidate, put together from the bytes of the chunks with every field in it that the provider sent; a thought
// signature stays on the part that it came with, since the API checks it there. Raw goes back in the next request as it
// came; only parts that hold nothing are left out then. A model's thoughts are told, and sent back as far as they are
// signed parts of the content. Nothing is read from the environment, there is no retry, and the key is in no error.
//
// A call that another provider's model made has no signature; it is sent with the mark that the API's documentation
// gives for such calls.
package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
	"github.com/inspan/inspan/internal/pattern"
)

// Provider is the adapter's name in answers and references ("gemini/MODEL").
const Provider = "gemini"

// KeyEnv is where a person is told to put the key.
const KeyEnv = "GEMINI_API_KEY"

// ownURL is Google's server; keyHeader carries the key.
const (
	ownURL    = "https://generativelanguage.googleapis.com/"
	keyHeader = "X-Goog-Api-Key"
)

// Config of the adapter.
type Config struct {
	// APIKey may be empty only with a BaseURL.
	APIKey string
	// BaseURL of a server that speaks the Gemini API, without "/v1beta". Empty is Google's own.
	BaseURL string
	// HTTPClient; nil uses the default transport. Redirects are never followed. It should have no Timeout: the
	// context ends a request.
	HTTPClient *http.Client
}

var _ llm.Model = (*Model)(nil)

// Model asks the API. It is safe for concurrent use.
type Model struct {
	endpoint wire.Endpoint
	errs     wire.Provider
}

// New makes the adapter. It fails, with an *llm.Error, without a key and on an address that is none.
func New(cfg Config) (*Model, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, &llm.Error{Class: llm.Auth, Err: errors.New("gemini: missing api key"), Hint: "set " + KeyEnv}
	}
	if err := wire.CheckKey(cfg.APIKey); err != nil {
		return nil, &llm.Error{Class: llm.Auth, Err: fmt.Errorf("gemini: %w", err), Hint: "set " + KeyEnv + " again"}
	}
	if err := wire.CheckBaseURL(cfg.BaseURL); err != nil {
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("gemini: %w", err), Hint: "correct the base url of gemini"}
	}
	to := wire.Endpoint{Client: wire.Client(cfg.HTTPClient), BaseURL: cfg.BaseURL, Header: http.Header{}}
	if to.BaseURL == "" {
		to.BaseURL = ownURL
	}
	if cfg.APIKey != "" {
		to.Header.Set(keyHeader, cfg.APIKey)
	}
	return &Model{endpoint: to, errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv, Key: cfg.APIKey}}, nil
}

// modelName is what can stand in the path of a request.
var modelName = pattern.New(`^((models|tunedModels)/)?[A-Za-z0-9][A-Za-z0-9._@-]*$`)

// Ask sends one request and reads its stream to the end.
func (m *Model) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	if err := ctx.Err(); err != nil {
		return llm.Answer{}, err
	}
	body, err := requestBody(req)
	if err != nil {
		return llm.Answer{}, m.errs.Unsent(err)
	}
	if !modelName.MatchString(req.Model) {
		return llm.Answer{}, &llm.Error{Class: llm.Invalid, Err: errors.New("gemini: the model name is not valid in a URL"),
			Hint: "check the model name"}
	}
	res, err := m.endpoint.Post(ctx, path(req.Model), "alt=sse", body)
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	if err := m.errs.Opened(ctx, res, err); err != nil {
		return llm.Answer{}, err
	}
	return m.read(ctx, res, req, sink)
}

// path of the requests to a model. A name without its collection is one of the models.
func path(model string) string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	return "v1beta/" + model + ":streamGenerateContent"
}

func (m *Model) read(ctx context.Context, res *http.Response, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	s := &stream{sink: sink}
	for e, err := range wire.Events(res.Body) {
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		failed, err := s.receive(e.Data)
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		if failed {
			return llm.Answer{}, m.errs.StreamError(e.Data)
		}
	}
	if s.finish == "" {
		return llm.Answer{}, m.errs.Broken(ctx, wire.ErrCut)
	}
	return s.answer(m.errs, req)
}
