// Package openai asks OpenAI's Responses API and its Chat Completions API, and the many servers that speak the latter
// (Ollama, vLLM, llama.cpp and others, by their base URL), as an llm.Model.
//
// Promises: every request streams, and a stream that ends before its answer is an error, never an answer. Responses
// says when an answer is whole. In Chat the finish reason is what makes it whole: a server that ends its stream
// properly but leaves out the usage or the [DONE] mark has answered, and the usage is then an estimate and says so; a
// connection that breaks has not. Raw is what the server said: in Chat the assistant message, put together from the
// bytes of the deltas with every field in it (reasoning_content, refusals, fields that we do not know); in Responses
// the array of output items, each as it came. It goes back in the next request as it came, to the same API only.
// Nothing is kept at the provider: Responses is asked not to store, and reasoning comes back encrypted. Nothing is read
// from the environment, there is no retry, and the key is in no error.
//
// A Schema is asked for as json_schema, not strict: OpenAI's strict mode refuses many good schemas, and local servers
// enforce the schema either way. The caller checks the answer. The APIs have no mark for a failed tool result, so the
// result's text says it.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// Provider is the adapter's name in answers and references ("openai/MODEL").
const Provider = "openai"

// ProviderResponses is the adapter's name in answers that came through the Responses API, whose Raw has another form.
const ProviderResponses = "openai-responses"

// API is one of the two that this adapter speaks.
type API string

const (
	// Chat is POST /chat/completions, Responses POST /responses.
	Chat      API = "chat"
	Responses API = "responses"
)

// ownHost is OpenAI's own server, ownURL the address of its API.
const (
	ownHost = "api.openai.com"
	ownURL  = "https://" + ownHost + "/v1/"
)

// KeyEnv is where a person is told to put the key.
const KeyEnv = "OPENAI_API_KEY"

// Config of the adapter.
type Config struct {
	// APIKey may be empty only with a BaseURL.
	APIKey string
	// BaseURL of a compatible server, with its version path, such as http://127.0.0.1:11434/v1. Empty is OpenAI's own.
	BaseURL string
	// API to speak; empty is Responses with OpenAI's own server and Chat with any other.
	API API
	// HTTPClient; nil uses the default transport. Redirects are never followed. It should have no Timeout: the
	// context ends a request.
	HTTPClient *http.Client
}

var _ llm.Model = (*Model)(nil)

// Model asks the API. It is safe for concurrent use.
type Model struct {
	endpoint wire.Endpoint
	errs     wire.Provider
	api      API
	// own is whether this is OpenAI's own server, which has another name for the output limit in Chat.
	own bool
}

// New makes the adapter. It fails, with an *llm.Error, without a key and on an address that is none.
func New(cfg Config) (*Model, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, &llm.Error{Class: llm.Auth, Err: errors.New("openai: missing api key"),
			Hint: "set " + KeyEnv + ", or OPENAI_BASE_URL for a local server"}
	}
	if err := wire.CheckKey(cfg.APIKey); err != nil {
		return nil, &llm.Error{Class: llm.Auth, Err: fmt.Errorf("openai: %w", err), Hint: "set " + KeyEnv + " again"}
	}
	if err := wire.CheckBaseURL(cfg.BaseURL); err != nil {
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("openai: %w", err), Hint: "correct the base url of openai"}
	}
	own := isOwn(cfg.BaseURL)
	switch {
	case cfg.API == Chat, cfg.API == Responses:
	case cfg.API != "":
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("openai: unknown api %q", cfg.API),
			Hint: "write chat or responses, or leave it out"}
	case own:
		cfg.API = Responses
	default:
		cfg.API = Chat
	}
	to := wire.Endpoint{Client: wire.Client(cfg.HTTPClient), BaseURL: cfg.BaseURL, Header: http.Header{}}
	if to.BaseURL == "" {
		to.BaseURL = ownURL
	}
	if cfg.APIKey != "" {
		to.Header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	return &Model{endpoint: to, api: cfg.API, own: own,
		errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv, Key: cfg.APIKey}}, nil
}

func isOwn(base string) bool {
	u, err := url.Parse(base)
	return base == "" || err == nil && u.Hostname() == ownHost
}

// Ask sends one request and reads its stream to the end.
func (m *Model) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	if err := ctx.Err(); err != nil {
		return llm.Answer{}, err
	}
	body, err := m.body(req)
	if err != nil {
		return llm.Answer{}, m.errs.Unsent(err)
	}
	path := "chat/completions"
	if m.api == Responses {
		path = "responses"
	}
	res, err := m.endpoint.Post(ctx, path, "", body)
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	if err := m.errs.Opened(ctx, res, err); err != nil {
		return llm.Answer{}, err
	}
	return m.read(ctx, res.Body, req, sink)
}

func (m *Model) body(req llm.Request) ([]byte, error) {
	if m.api == Responses {
		return responsesBody(req)
	}
	return requestBody(req, m.own)
}

// listener puts an answer together.
type listener interface {
	// receive takes the data of one event. failed is the provider's error in it, nil where it has none.
	receive(data []byte) (failed json.RawMessage, err error)
	// whole reports whether the answer is; ended whether nothing of it can come any more.
	whole() bool
	ended() bool
	answer(req llm.Request) (llm.Answer, error)
}

func (m *Model) read(ctx context.Context, body io.Reader, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	var s listener = newStream(sink)
	if m.api == Responses {
		s = &items{sink: sink}
	}
	for e, err := range wire.Events(body) {
		data := bytes.TrimSpace(e.Data)
		if bytes.Equal(data, doneMark) && (err == nil || errors.Is(err, wire.ErrCut)) {
			break // also where the blank line after it is missing: nothing comes after the mark
		}
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		failed, err := s.receive(data)
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		if failed != nil {
			return llm.Answer{}, m.errs.StreamError(failed)
		}
		if s.ended() {
			break
		}
	}
	if !s.whole() {
		return llm.Answer{}, m.errs.Broken(ctx, wire.ErrCut)
	}
	return s.answer(req)
}

// doneMark is the data of the event that ends a stream of Chat Completions.
var doneMark = []byte("[DONE]")
