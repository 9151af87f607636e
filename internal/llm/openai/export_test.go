package openai

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// ReadForTest reads text as the stream of api's answer to req, without a server.
func ReadForTest(api API, text string, req llm.Request) (llm.Answer, error) {
	m := &Model{api: api, errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv}}
	res := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(text))}
	return m.read(context.Background(), ssestream.NewDecoder(res), req, func(llm.Delta) {})
}

// BodyForTest is the body of a request, as OpenAI's own server or another one gets it.
func BodyForTest(req llm.Request, own bool) ([]byte, error) { return requestBody(req, own) }
