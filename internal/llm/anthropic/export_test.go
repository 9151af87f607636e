package anthropic

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// ReadForTest reads text as the stream of an answer to req, without a server.
func ReadForTest(text string, req llm.Request) (llm.Answer, error) {
	m := &Model{errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv}}
	res := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(text))}
	return m.read(context.Background(), ssestream.NewDecoder(res), req, func(llm.Delta) {})
}
