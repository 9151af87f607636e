// Package openai asks OpenAI's Chat Completions API, and the many servers that speak it (Ollama, vLLM, llama.cpp and
// others, by their base URL), as an llm.Model.
//
// Promises: every request streams; an answer without a finish reason is an error, never an answer. The finish reason is
// what makes an answer whole: a server that ends its stream properly but leaves out the usage or the [DONE] mark has
// answered, and the usage is then an estimate and says so; a connection that breaks has not. Raw is the assistant message,
// put together from the bytes of the deltas with every field in it that the server sent (reasoning_content, refusals,
// fields that we do not know). It goes back in the next request as it came. Nothing is read from the environment, the
// SDK's retries are off, and the key is in no error.
//
// A Schema is asked for as response_format json_schema, not strict: OpenAI's strict mode refuses many good schemas, and
// local servers enforce the schema either way. The caller checks the answer. The API has no mark for a failed tool
// result, so the result's text says it.
package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// Provider is the adapter's name in answers and references ("openai/MODEL").
const Provider = "openai"

// KeyEnv is where a person is told to put the key.
const KeyEnv = "OPENAI_API_KEY"

// Config of the adapter.
type Config struct {
	// APIKey may be empty only with a BaseURL.
	APIKey string
	// BaseURL of a compatible server, with its version path, such as http://127.0.0.1:11434/v1. Empty is OpenAI's own.
	BaseURL string
	// HTTPClient; nil uses the default transport. Redirects are never followed. It should have no Timeout: the
	// context ends a request.
	HTTPClient *http.Client
}

var _ llm.Model = (*Model)(nil)

// Model asks the API. It is safe for concurrent use.
type Model struct {
	client sdk.Client
	errs   wire.Provider
	// own is whether this is OpenAI's own server, which has another name for the output limit.
	own bool
}

// New makes the adapter. It fails, with an *llm.Error, without a key and on an address that is none.
func New(cfg Config) (*Model, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, &llm.Error{Class: llm.Auth, Err: errors.New("openai: there is no api key"),
			Hint: "set " + KeyEnv + ", or OPENAI_BASE_URL for a local server"}
	}
	if err := wire.CheckKey(cfg.APIKey); err != nil {
		return nil, &llm.Error{Class: llm.Auth, Err: fmt.Errorf("openai: %w", err), Hint: "set " + KeyEnv + " again"}
	}
	if err := wire.CheckBaseURL(cfg.BaseURL); err != nil {
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("openai: %w", err), Hint: "correct the base url of openai"}
	}
	opts := []option.RequestOption{
		option.WithEnvironmentProduction(),
		option.WithHTTPClient(wire.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	if cfg.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(cfg.BaseURL))
	}
	// The SDK's NewClient would read keys, addresses and headers from the environment.
	return &Model{client: sdk.Client{Options: opts}, own: cfg.BaseURL == "",
		errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv, Key: cfg.APIKey}}, nil
}

// Ask sends one request and reads its stream to the end.
func (m *Model) Ask(ctx context.Context, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	if err := ctx.Err(); err != nil {
		return llm.Answer{}, err
	}
	body, err := requestBody(req, m.own)
	if err != nil {
		return llm.Answer{}, m.errs.Unsent(err)
	}
	var res *http.Response
	err = m.client.Post(ctx, "chat/completions", body, &res, option.WithHeader("Accept", "text/event-stream"))
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	if err := m.errs.Opened(ctx, res, err); err != nil {
		return llm.Answer{}, err
	}
	return m.read(ctx, ssestream.NewDecoder(res), req, sink)
}

func (m *Model) read(ctx context.Context, events ssestream.Decoder, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	s := newStream(sink)
	for events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		if bytes.Equal(data, []byte("[DONE]")) {
			break
		}
		failed, err := s.hear(data)
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		if failed {
			return llm.Answer{}, m.errs.StreamError(data)
		}
	}
	if err := events.Err(); err != nil {
		return llm.Answer{}, m.errs.Broken(ctx, err)
	}
	if s.finish == "" {
		return llm.Answer{}, m.errs.Broken(ctx, wire.ErrCut)
	}
	return s.answer(req)
}
