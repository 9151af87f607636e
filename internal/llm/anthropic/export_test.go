package anthropic

import (
	"context"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// ReadForTest reads text as the stream of an answer to req, without a server.
func ReadForTest(text string, req llm.Request) (llm.Answer, error) {
	m := &Model{errs: wire.Provider{Name: Provider, KeyEnv: KeyEnv}}
	return m.read(context.Background(), strings.NewReader(text), req, func(llm.Delta) {})
}

// SchemaForTest is the schema of an output format as it is sent.
func SchemaForTest(schema string) ([]byte, error) {
	c, err := outputFormat([]byte(schema))
	if err != nil {
		return nil, err
	}
	return wire.Marshal(c.Format.Schema)
}
