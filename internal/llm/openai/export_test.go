package openai

import (
	"context"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// ReadForTest reads text as the stream of api's answer to req, without a server.
func ReadForTest(api API, text string, req llm.Request) (llm.Answer, error) {
	m := &Model{api: api, errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv}}
	return m.read(context.Background(), strings.NewReader(text), req, func(llm.Delta) {})
}

// BodyForTest is the body of a request, as OpenAI's own server or another one gets it.
func BodyForTest(req llm.Request, own bool) ([]byte, error) { return requestBody(req, own) }
