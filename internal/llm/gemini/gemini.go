// Package gemini asks Google's Gemini API (generateContent) as an llm.Model.
//
// Promises: every request streams; an answer without a finish reason is an error, never an answer. Raw is the content
// of the candidate, put together from the bytes of the chunks with every field in it that the provider sent; a thought
// signature stays on the part that it came with, since the API checks it there. Raw goes back in the next request as it
// came; only parts that hold nothing are left out then. A model's thoughts are told, and sent back as far as they are
// signed parts of the content. Nothing is read from the environment, there is no retry, and the key is in no error.
//
// The SDK addresses and signs the request; the bytes of the request and of the answer pass it by, because its structs
// know neither all fields nor large numbers.
//
// A call that another provider's model made has no signature; it is sent with the mark that the API's documentation
// gives for such calls.
package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	"google.golang.org/genai"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// Provider is the adapter's name in answers and references ("gemini/MODEL").
const Provider = "gemini"

// KeyEnv is where a person is told to put the key.
const KeyEnv = "GEMINI_API_KEY"

// noKey stands in for the key in the SDK, which takes none away; the header is not sent then.
const noKey = "none"

// keyHeader carries the key.
const keyHeader = "X-Goog-Api-Key"

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

// ownURL is Google's; it is given, so that the SDK looks for none in the environment.
const ownURL = "https://generativelanguage.googleapis.com/"

var _ llm.Model = (*Model)(nil)

// Model asks the API. It is safe for concurrent use.
type Model struct {
	client *genai.Client
	errs   wire.Provider
}

// New makes the adapter. It fails, with an *llm.Error, without a key and on an address that is none.
func New(cfg Config) (*Model, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, &llm.Error{Class: llm.Auth, Err: errors.New("gemini: there is no api key"), Hint: "set " + KeyEnv}
	}
	if err := wire.CheckKey(cfg.APIKey); err != nil {
		return nil, &llm.Error{Class: llm.Auth, Err: fmt.Errorf("gemini: %w", err), Hint: "set " + KeyEnv + " again"}
	}
	if err := wire.CheckBaseURL(cfg.BaseURL); err != nil {
		return nil, &llm.Error{Class: llm.Invalid, Err: fmt.Errorf("gemini: %w", err), Hint: "correct the base url of gemini"}
	}
	client := wire.Client(cfg.HTTPClient)
	client.Transport = &catcher{next: client.Transport, sendKey: cfg.APIKey != ""}
	key, base := cfg.APIKey, cfg.BaseURL
	if key == "" {
		key = noKey
	}
	if base == "" {
		base = ownURL
	}
	sdk, err := genai.NewClient(context.Background(), &genai.ClientConfig{APIKey: key, Backend: genai.BackendGeminiAPI,
		HTTPClient: client, HTTPOptions: genai.HTTPOptions{BaseURL: base}})
	if err != nil { // its text shows the key
		return nil, &llm.Error{Class: llm.Invalid, Err: errors.New("gemini: the settings are refused"), Hint: "check the key and the base url of gemini"}
	}
	return &Model{client: sdk, errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv, Key: cfg.APIKey}}, nil
}

// catcher gives the answer of a request to whoever asked and an empty one to the SDK.
type catcher struct {
	next    http.RoundTripper
	sendKey bool
}

type caughtKey struct{}

// caught is the answer of one request.
type caught struct {
	res *http.Response
	err error
}

// RoundTrip implements http.RoundTripper.
func (c *catcher) RoundTrip(req *http.Request) (*http.Response, error) {
	at, ok := req.Context().Value(caughtKey{}).(*caught)
	if !ok || at.res != nil || at.err != nil {
		return nil, errors.New("gemini: a request that nobody asked for")
	}
	if !c.sendKey {
		req = req.Clone(req.Context())
		req.Header.Del(keyHeader)
	}
	if at.res, at.err = c.next.RoundTrip(req); at.err != nil {
		return nil, at.err
	}
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// modelName is what can stand in the path of a request.
var modelName = regexp.MustCompile(`^((models|tunedModels)/)?[A-Za-z0-9][A-Za-z0-9._@-]*$`)

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
		return llm.Answer{}, &llm.Error{Class: llm.Invalid, Err: errors.New("gemini: the model's name can not stand in an address"), Hint: "check the model name"}
	}
	res, err := m.send(ctx, req.Model, body)
	if res != nil && res.Body != nil {
		defer res.Body.Close()
	}
	if err := m.errs.Opened(ctx, res, err); err != nil {
		return llm.Answer{}, err
	}
	return m.read(ctx, res, req, sink)
}

// send makes the request through the SDK.
func (m *Model) send(ctx context.Context, model string, body json.RawMessage) (*http.Response, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	raw := make(map[string]any, len(fields))
	for name, value := range fields {
		raw[name] = value
	}
	once := false
	var at caught
	stream := m.client.Models.GenerateContentStream(context.WithValue(ctx, caughtKey{}, &at), model, nil, &genai.GenerateContentConfig{
		HTTPOptions:           &genai.HTTPOptions{ExtrasRequestProvider: func(map[string]any) map[string]any { return raw }},
		AutomaticContinuation: &once,
	})
	var failed error
	for _, err := range stream { // the request is made here; its answer is empty for the SDK
		failed = err
	}
	if at.res != nil {
		return at.res, nil
	}
	if at.err != nil {
		return nil, at.err
	}
	return nil, failed
}

func (m *Model) read(ctx context.Context, res *http.Response, req llm.Request, sink llm.Sink) (llm.Answer, error) {
	s := &stream{sink: sink}
	for data, err := range wire.Events(res.Body) {
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		failed, err := s.hear(data)
		if err != nil {
			return llm.Answer{}, m.errs.Broken(ctx, err)
		}
		if failed {
			return llm.Answer{}, m.errs.StreamError(data)
		}
	}
	if s.finish == "" {
		return llm.Answer{}, m.errs.Broken(ctx, wire.ErrCut)
	}
	return s.answer(m.errs, req)
}
