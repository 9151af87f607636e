package models

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// bell is a tool that takes no arguments and counts how often it was rung.
type bell struct{ rung *atomic.Int32 }

func (bell) Spec() tool.Spec {
	return tool.Spec{Name: "bell", Description: "rings", Effect: tool.Once, Input: json.RawMessage(`{"type":"object"}`)}
}

func (b bell) Run(context.Context, tool.Call) (tool.Result, error) {
	b.rung.Add(1)
	return tool.Result{Output: "rung"}, nil
}

// begun is an answer that its output limit ends where a call of bell has begun and its arguments have not.
var begun = map[string]string{
	"anthropic": data(`{"type":"message_start","message":{"model":"claude-x"}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"call_1","name":"bell","input":{}}}`,
		`{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`, `{"type":"message_stop"}`),
	"chat": data(`{"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"bell","arguments":""}}]},"finish_reason":"length"}]}`, "[DONE]"),
	"responses": data(`{"type":"response.output_item.done","output_index":0,"item":{"id":"fc_1","type":"function_call","status":"incomplete","call_id":"call_1","name":"bell","arguments":""}}`,
		`{"type":"response.incomplete","response":{"model":"gpt-x","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`),
	"gemini": data(`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"bell"}}]},"finishReason":"MAX_TOKENS"}],"modelVersion":"gemini-x"}`),
}

// odd are answers that end for a reason of their own: declined, and one that no one knows.
var odd = map[string][2]string{
	"anthropic": {data(`{"type":"message_start","message":{"model":"claude-x"}}`, `{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, `{"type":"message_stop"}`),
		data(`{"type":"message_start","message":{"model":"claude-x"}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Odd."}}`,
			`{"type":"message_delta","delta":{"stop_reason":"from_the_future"}}`, `{"type":"message_stop"}`)},
	"chat": {data(`{"model":"m","choices":[{"index":0,"delta":{"refusal":"I do not do that."},"finish_reason":"stop"}]}`, "[DONE]"),
		data(`{"model":"m","choices":[{"index":0,"delta":{"content":"Odd."},"finish_reason":"from_the_future"}]}`, "[DONE]")},
	"responses": {data(`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I do not do that."}]}}`,
		`{"type":"response.completed","response":{"model":"gpt-x","status":"completed"}}`),
		data(`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Odd."}]}}`,
			`{"type":"response.completed","response":{"model":"gpt-x","status":"from_the_future"}}`)},
	"gemini": {data(`{"candidates":[{"content":{"role":"model","parts":[{"text":"I "}]},"finishReason":"SAFETY"}],"modelVersion":"gemini-x"}`),
		data(`{"candidates":[{"content":{"role":"model","parts":[{"text":"Odd."}]},"finishReason":"FROM_THE_FUTURE"}],"modelVersion":"gemini-x"}`)},
}

func TestCut(t *testing.T) {
	t.Parallel()
	base, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range dialects() {
		set := func(url string) service.Config {
			cfg := base
			c.set(&cfg, url)
			return cfg
		}
		whole := c.wire.call("call_1", "write", writes)
		half := whole[:strings.Index(whole, "alpha")]
		for how, reply := range map[string]llmtest.Reply{"a broken connection": llmtest.Broken(half), "an early end": llmtest.Stream(half)} {
			t.Run("PLUS-7 with "+name+" a call whose arguments are cut in the middle by "+how+" is not made; the turn is asked for again, once", func(t *testing.T) {
				t.Parallel()
				s := llmtest.Serve(t, reply, llmtest.Stream(c.wire.call("call_1", "read", `{"path":"none.txt"}`)), llmtest.Stream(c.wire.text("Nothing is there.")))
				end := carryOut(t, c.model, set(s.URL))
				if end.Status != events.Completed || end.Result.Output != "Nothing is there." || s.Requests() != 3 || end.Turns().Len() != 2 {
					t.Fatalf("%s, %+v after %d requests and %d turns", end.Status, end.Result, s.Requests(), end.Turns().Len())
				}
				if calls := end.ToolCallHistory; calls.Len() != 1 || calls.At(0).CallName != "read" || end.TotalToolCalls != 1 {
					t.Errorf("%d calls, the first is %+v", calls.Len(), calls.At(0))
				}
			})
		}
		t.Run("LOOP-4 with "+name+" a call that the output limit cut before its arguments is refused, the model is told, and the run goes on", func(t *testing.T) {
			t.Parallel()
			s := llmtest.Serve(t, llmtest.Stream(begun[name]), llmtest.Stream(c.wire.call("call_2", "bell", "{}")), llmtest.Stream(c.wire.text("It rang.")))
			b := bell{new(atomic.Int32)}
			end := carry(t, c.model, set(s.URL), time.Minute, []tool.Tool{b}, "Ring.")[0]
			if end.Status != events.Completed || end.Result.Output != "It rang." || b.rung.Load() != 1 || end.TotalToolCalls != 1 {
				t.Fatalf("%s, %+v, rung %d times", end.Status, end.Result, b.rung.Load())
			}
			first := end.ToolCallHistory.At(0)
			if first.Outcome != run.OutcomeRefused || first.Code != events.RefusedInput || !strings.Contains(string(s.Last()), events.CutOff) {
				t.Errorf("%+v\n%s", first, s.Last())
			}
		})
		t.Run("LOOP-4 with "+name+" a refusal ends the run with its own reason, and a reason that no one knows is an end as any", func(t *testing.T) {
			t.Parallel()
			s := llmtest.Serve(t, llmtest.Stream(odd[name][0]))
			if end := carryOut(t, c.model, set(s.URL)); end.Status != events.Failed || end.Result.FinishReason != events.FinishRefusal || s.Requests() != 1 {
				t.Errorf("%s, %+v after %d requests", end.Status, end.Result, s.Requests())
			}
			s = llmtest.Serve(t, llmtest.Stream(odd[name][1]))
			if end := carryOut(t, c.model, set(s.URL)); end.Status != events.Completed || end.Result.Output != "Odd." || s.Requests() != 1 {
				t.Errorf("%s, %+v after %d requests", end.Status, end.Result, s.Requests())
			}
		})
		for what, reply := range map[string]string{"no content": c.wire.text(""), "only white space": c.wire.text(" \n")} {
			t.Run(fmt.Sprintf("LOOP-4 with %s an answer with %s is told, and ends the run with its own reason the second time", name, what), func(t *testing.T) {
				t.Parallel()
				s := llmtest.Serve(t, llmtest.Stream(reply))
				end := carryOut(t, c.model, set(s.URL))
				if end.Status != events.Failed || end.Result.FinishReason != events.FinishEmpty || s.Requests() != 2 {
					t.Errorf("%s, %+v after %d requests", end.Status, end.Result, s.Requests())
				}
			})
		}
	}
}
