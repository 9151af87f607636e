package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ui makes a request of AG-UI and returns all events.
func (d *door) ui(t *testing.T, agent, token, thread, run, text, resume string) []tree {
	t.Helper()
	next, _ := d.posted(t, "/agui/"+agent, token, uiInput(thread, run, text, resume))
	return all(next)
}

func uiInput(thread, run, text, resume string) string {
	if resume == "" {
		resume = "[]"
	}
	return fmt.Sprintf(`{"threadId":%q,"runId":%q,"state":{},"tools":[],"context":[],"messages":[{"id":"1","role":"user","content":%q}],"resume":%s}`,
		thread, run, text, resume)
}

// kinds are the types of events, those that follow each other once.
func kinds(events []tree) (all []string) {
	for _, e := range events {
		all = append(all, e.text("type"))
	}
	return slices.Compact(all)
}

func uiText(events []tree) (text string) {
	for _, e := range events {
		switch e.text("type") {
		case "TEXT_MESSAGE_START":
			text += "|"
		case "TEXT_MESSAGE_CONTENT":
			text += e.text("delta")
		}
	}
	return text
}

func testAGUI(t *testing.T, d *door) {
	t.Run("PLUS-16b a run is typed events, with its text and its calls", func(t *testing.T) {
		events := d.ui(t, "looker", "both", "t1", "r1", "look", "")
		want := []string{"RUN_STARTED", "CUSTOM", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END",
			"TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"}
		if got := kinds(events); !slices.Equal(got, want) || uiText(events) != "|I look.|I have looked." {
			t.Errorf("%q %q", got, uiText(events))
		}
		last := events[len(events)-1]
		if last.text("outcome.type") != "success" || last.text("result") != "I have looked." || last.text("runId") != "r1" || last.text("threadId") != "t1" {
			t.Errorf("%v", last)
		}
		again := d.ui(t, "looker", "both", "t1", "r1", "look", "")
		if again[1].text("value.run_id") != events[1].text("value.run_id") || uiText(again) != uiText(events) || !slices.Equal(kinds(again), want) {
			t.Errorf("the same request again: %v", again)
		}
	})
	t.Run("PLUS-16b a stream has the text as it is written, and a client that was cut off gets all of it", func(t *testing.T) {
		next, cut := d.posted(t, "/agui/talker", "both", uiInput("t2", "r1", "say so", ""))
		next()
		cut()
		if events := d.ui(t, "talker", "both", "t2", "r1", "say so", ""); uiText(events) != "|"+said {
			t.Errorf("%q", uiText(events))
		}
	})
	t.Run("PLUS-16b a gate is an interrupt, and the next request answers it", func(t *testing.T) {
		events := d.ui(t, "asks", "all", "t3", "r1", "x", "")
		last := events[len(events)-1]
		gate := last.text("outcome.interrupts.0.id")
		if last.text("outcome.type") != "interrupt" || gate == "" || last.text("outcome.interrupts.0.message") == "" {
			t.Fatalf("%v", events)
		}
		yes := `[{"interruptId":"` + gate + `","status":"resolved","payload":{"decision":"approve"}}]`
		d.want(t, 403, "POST", "/agui/asks", "both", uiInput("t3", "r2", "x", yes))
		d.want(t, 404, "POST", "/agui/asks", "all", uiInput("other", "r2", "x", yes))
		d.want(t, 404, "POST", "/agui/helper", "all", uiInput("t3", "r2", "x", yes))
		d.want(t, 400, "POST", "/agui/asks", "all", uiInput("t3", "r2", "x", strings.Replace(yes, "approve", "yes", 1)))
		if events = d.ui(t, "asks", "all", "t3", "r2", "x", strings.Replace(yes, "resolved", "cancelled", 1)); events[len(events)-1].text("outcome.interrupts.0.id") != gate {
			t.Errorf("no decision: %v", events)
		}
		for range 2 { // the second time it changes nothing
			events = d.ui(t, "asks", "all", "t3", "r3", "x", yes)
			if last = events[len(events)-1]; last.text("outcome.type") != "success" || uiText(events) != "|It is done." {
				t.Errorf("%v", events)
			}
		}
	})
	t.Run("PLUS-16b a rejection pauses, which is an interrupt, too, and a run that is stopped is cancelled", func(t *testing.T) {
		events := d.ui(t, "asks", "all", "t4", "r1", "x", "")
		no := `[{"interruptId":"` + events[len(events)-1].text("outcome.interrupts.0.id") + `","status":"resolved","payload":{"decision":"reject","reason":"not now"}}]`
		events = d.ui(t, "asks", "all", "t4", "r2", "x", no)
		last := events[len(events)-1]
		if last.text("outcome.interrupts.0.reason") != "paused" || !strings.Contains(last.text("outcome.interrupts.0.message"), "not now") {
			t.Fatalf("%v", events)
		}
		no = `[{"interruptId":"` + last.text("outcome.interrupts.0.id") + `","status":"resolved","payload":{"decision":"reject"}}]`
		events = d.ui(t, "asks", "both", "t4", "r3", "x", no)
		if last = events[len(events)-1]; last.text("outcome.type") != "cancelled" {
			t.Errorf("%v", events)
		}
	})
	t.Run("PLUS-16b a run that fails is an error", func(t *testing.T) {
		events := d.ui(t, "broken", "both", "t5", "r1", "x", "")
		if last := events[len(events)-1]; last.text("type") != "RUN_ERROR" || !strings.Contains(last.text("message"), "the model is gone") || last.text("code") == "" {
			t.Errorf("%v", events)
		}
	})
	t.Run("PLUS-16b what is malformed or not permitted starts nothing", func(t *testing.T) {
		fine := uiInput("t6", "r1", "x", "")
		for _, c := range []struct {
			agent, token, body string
			status             int
		}{{"helper", "", fine, 401}, {"helper", "reader", fine, 403}, {"helper", "writer", fine, 403}, {"nobody", "both", fine, 422}, {"helper", "both", `{`, 400}, {"helper", "both", `[]`, 400},
			{"helper", "both", uiInput("../x", "r1", "x", ""), 400}, {"helper", "both", uiInput("t6", "", "x", ""), 400}, {"helper", "both", `{"threadId":"t6","runId":"r1","messages":[]}`, 400},
			{"helper", "both", uiInput("t6", "r1", "x", `[{"interruptId":"none","status":"resolved"}]`), 400}, {"helper", "both", uiInput("t6", "r1", "x", `[{"interruptId":"none/g","status":"resolved"}]`), 404},
			{"helper", "both", uiInput("t6", "r1", strings.Repeat("x", 2<<20), ""), 413}, {"helper", "both", strings.Repeat("[", 20000), 400}} {
			if a := d.do(t, "POST", "/agui/"+c.agent, c.token, c.body); a.status != c.status {
				t.Errorf("%s %.80s: %d %s", c.agent, c.body, a.status, a.body)
			}
		}
		d.want(t, 415, "POST", "/agui/helper", "both", fine, "Content-Type", "text/plain")
	})
}
