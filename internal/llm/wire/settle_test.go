package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/wire"
)

// own takes any object, and reads its calls from "calls".
func own(raw json.RawMessage) (json.RawMessage, []llm.Call, error) {
	var o struct{ Calls []llm.Call }
	err := json.Unmarshal(raw, &o)
	return raw, o.Calls, err
}

func TestSettle(t *testing.T) {
	t.Parallel()
	call := func(id string) llm.Call { return llm.Call{ID: id, Name: "f", Input: json.RawMessage(`{}`)} }
	t.Run("PLUS-2 calls and results are paired, in order, once, and open ones are interrupted", func(t *testing.T) {
		t.Parallel()
		got, err := wire.Settle([]llm.Message{
			{Role: llm.Assistant, Text: "first"},
			{Role: llm.Assistant, Calls: []llm.Call{call("a"), call("b"), call("c")}},
			{Role: llm.ToolResults, Results: []llm.Result{{CallID: "c", Output: "C"}, {CallID: "x", Output: "X"}}},
			{Role: llm.User, Text: "wait"},
			{Role: llm.User, Text: " ", Images: []llm.Image{{MediaType: "image/png"}}},
			{Role: llm.ToolResults, Results: []llm.Result{{CallID: "a", Output: "A", Failed: true, Images: []llm.Image{{MediaType: "image/gif"}}}, {CallID: "a", Output: "A2"}}},
			{Role: llm.Assistant, Text: "last"},
		}, "p", own)
		if err != nil {
			t.Fatal(err)
		}
		var roles []llm.Role
		for _, m := range got {
			roles = append(roles, m.Role)
		}
		if want := []llm.Role{llm.User, llm.Assistant, llm.User, llm.Assistant, llm.ToolResults, llm.User, llm.Assistant, llm.User}; !slices.Equal(roles, want) {
			t.Fatalf("got %v, want %v", roles, want)
		}
		want := []llm.Result{{CallID: "a", Name: "f", Output: "A", Failed: true, Images: []llm.Image{{MediaType: "image/gif"}}}, {CallID: "b", Name: "f", Output: "interrupted: the call has no result", Failed: true},
			{CallID: "c", Name: "f", Output: "C"}}
		if !reflect.DeepEqual(got[4].Results, want) {
			t.Errorf("got %+v", got[4].Results)
		}
		if u := got[5]; u.Text != "wait" || len(u.Images) != 1 {
			t.Errorf("got %+v, want both messages of the user in one", u)
		}
	})
	t.Run("PLUS-2 ids of other providers are made to fit and never meet one of our own", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("x", 60)
		got, err := wire.Settle([]llm.Message{
			{Role: llm.Assistant, Calls: []llm.Call{call("mine"), call("é:"), call(long + "1"), call(long + "2")}},
			{Role: llm.Assistant, Provider: "p", Raw: json.RawMessage(`{"Calls":[{"ID":"mine"}]}`), Calls: []llm.Call{call("mine")}},
		}, "p", own)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range got {
			for i, c := range m.Calls {
				ids = append(ids, c.ID)
				if len(c.ID) > 40 {
					t.Errorf("id %d has %d characters", i, len(c.ID))
				}
			}
		}
		if want := []string{"mine_2", "__", strings.Repeat("x", 40), strings.Repeat("x", 38) + "_2", "mine"}; !slices.Equal(ids, want) {
			t.Errorf("got %q, want %q", ids, want)
		}
	})
	t.Run("nothing at all is still a question", func(t *testing.T) {
		t.Parallel()
		if got, err := wire.Settle(nil, "p", own); err != nil || len(got) != 1 || got[0].Role != llm.User || got[0].Text == "" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("an unknown role and a damaged message are errors with their place", func(t *testing.T) {
		t.Parallel()
		for _, m := range []llm.Message{{Role: "odd"}, {Role: llm.Assistant, Provider: "p", Raw: json.RawMessage(`7`)}} {
			if _, err := wire.Settle([]llm.Message{{Role: llm.User, Text: "x"}, m}, "p", own); err == nil || !strings.Contains(err.Error(), "message 1") {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestAsObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{``: `{}`, ` null `: `{}`, `{"a":1}`: `{"a":1}`, `[1]`: `{"INVALID_JSON":[1]}`,
		`"x"`: `{"INVALID_JSON":"x"}`, `{"a":`: `{"INVALID_JSON":"{\"a\":"}`} {
		if got := wire.AsObject(json.RawMessage(in)); !llmtest.SameJSON(got, []byte(want)) {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestGoogleErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]llm.Error{
		`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"3s"}]}}`:          {Class: llm.RateLimit, RetryAfter: 3 * time.Second},
		`{"error":{"status":"RESOURCE_EXHAUSTED","details":[7,{"retryDelay":"-1s"}]}}`:                  {Class: llm.RateLimit},
		`{"error":{"status":"UNAVAILABLE"}}`:                                                            {Class: llm.Transient},
		`{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`:   {Class: llm.Auth},
		`{"error":{"code":403,"status":"PERMISSION_DENIED","details":[{"reason":"BILLING_DISABLED"}]}}`: {Class: llm.Auth},
		`{"error":{"code":400,"status":"INVALID_ARGUMENT","details":"odd"}}`:                            {Class: llm.Invalid},
	} {
		e, ok := errors.AsType[*llm.Error](provider.StreamError([]byte(text)))
		if !ok || e.Class != want.Class || e.RetryAfter != want.RetryAfter {
			t.Errorf("%s: got %+v, want %+v", text, e, want)
		}
	}
}
