package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stateful adds tools that live from one call to the next.
func stateful(dir string, add func(name, description, schema string, run mcp.ToolHandler)) {
	var mu sync.Mutex
	calls, meeting, met := 0, 0, make(chan struct{})
	var held []*os.File // a file that is not used is closed, and its lock is gone
	add("count", "Count the calls of this tool.", anything,
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return text(fmt.Sprintf("call %d", calls)), nil
		})
	add("meet", "Wait until two calls are here.", `{"type":"object","properties":{"name":{"type":"string"}}}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Name string }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		mu.Lock()
		if meeting++; meeting == 2 {
			close(met)
		}
		mu.Unlock()
		select {
		case <-met:
			return text("met as " + in.Name), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	add("deaf", "Write the file deaf, and the file heard when the file go is there, whatever becomes of the call.",
		anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if err := mark(dir, "deaf"); err != nil {
				return nil, err
			}
			for {
				if _, err := os.Stat(filepath.Join(dir, "go")); err == nil {
					return text("done after all"), mark(dir, "heard")
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	add("hold", "Lock the file held until this process ends.", anything,
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			f, err := os.OpenFile(filepath.Join(dir, "held"), os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			held = append(held, f)
			return text("locked"), lock(f)
		})
	add("chatter", "Go on talking after the answer.", anything,
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			session := r.Session
			go func() {
				for {
					if session.NotifyProgress(context.Background(),
						&mcp.ProgressNotificationParams{ProgressToken: "t", Message: strings.Repeat("x", 16<<10)}) != nil {
						return
					}
				}
			}()
			return text("and another thing"), nil
		})
}
