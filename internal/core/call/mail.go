package call

import (
	"encoding/json"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// askMail is Ask for the mail tools. An agent sends as itself: the address is that of its run, and so is the work item.
func askMail(s run.State, c run.Call, input json.RawMessage) []events.Payload {
	bad := func(fault, hint string) []events.Payload {
		return []events.Payload{&events.CallFailedData{Event: "tool_result", ToolRef: ref(c), Error: ClipError(fault),
			Class: "invalid",
			Hint:  hint, DurationMS: 1, Attempt: 1}}
	}
	if !s.Created.CanAsk(c.Tool) {
		if c.Tool == events.ToolDeliver {
			return bad("this run holds no work item: there is nothing to hand in", "finish with the result")
		}
		return bad("this run is no named agent: it has no address, no mail and no next run", "do the work without that tool")
	}
	r, err := events.Requesting(c.Tool, input)
	if err != nil {
		return bad(err.Error(), "fix the arguments and retry")
	}
	return []events.Payload{&events.MailRequestedData{Event: "tool_start", ToolRef: ref(c), Request: r, Attempt: 1,
		Effect: c.Effect}}
}
