package mcptest

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ask tries all that a server may ask of a client and says what came of it.
func ask(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var out []string
	say := func(what string, err error) {
		if err == nil {
			out = append(out, what+": GRANTED")
			return
		}
		out = append(out, what+": refused")
	}
	_, err := r.Session.ListRoots(ctx, nil)
	say("roots", err)
	_, err = r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 10,
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}})
	say("sampling", err)
	_, err = r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "your password?",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
	say("elicitation", err)
	for i := range 200 {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: fmt.Sprint("t", i),
			Progress: float64(i)})
	}
	return text(strings.Join(out, "\n")), nil
}
