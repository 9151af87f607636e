package gemini

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// ReadForTest reads text as the stream of an answer to req, without a server.
func ReadForTest(text string, req llm.Request) (llm.Answer, error) {
	m := &Model{errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv}}
	return m.read(context.Background(), &http.Response{Body: io.NopCloser(strings.NewReader(text))}, req, func(llm.Delta) {})
}
