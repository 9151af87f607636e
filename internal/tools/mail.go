package tools

import (
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const mailSendSchema = `{"type":"object","additionalProperties":false,"required":["to","body"],"properties":{
"to":{"type":"string","minLength":1,"maxLength":64,"description":"address: project/role/name, queue/name, list/name, channel/name or all"},
"body":{"type":"string","minLength":1,"maxLength":8192,"description":"the message"},
"subject":{"type":"string","maxLength":256,"description":"one line"},
"priority":{"type":"string","enum":["urgent","high","normal","low"],"description":"normal where it is left out"},
"interrupt":{"type":"boolean","description":"with urgent: end the answer that the agent is giving; only some agents take it"},
"thread":{"type":"string","maxLength":64,"description":"thread of the message that this one belongs to"},
"reply_to":{"type":"string","maxLength":64,"description":"id of the message that this one answers"},
"kind":{"type":"string","maxLength":64,"description":"kind of a typed message, where the address takes such"},
"data":{"type":"object","description":"data of a typed message"},
"expires":{"type":"string","maxLength":16,"description":"how long it may wait, such as 2h"}}}`

const mailReadSchema = `{"type":"object","additionalProperties":false,"properties":{
"queue":{"type":"string","minLength":1,"maxLength":64,"description":"queue to claim a message of, such as queue/builds"}}}`

const handoffSchema = `{"type":"object","additionalProperties":false,"required":["summary"],"properties":{
"summary":{"type":"string","minLength":1,"maxLength":8192,"description":"where the work stands, for the next run"}}}`

const deliverSchema = `{"type":"object","additionalProperties":false,"properties":{
"queue":{"type":"string","minLength":1,"maxLength":64,"description":"merge queue that lands the work; without it the branch stays at the remote"},
"review_to":{"type":"string","maxLength":64,"description":"address that gets the notice for reviewers"},
"oversight":{"type":"string","maxLength":64,"description":"address that gets the notice for oversight"}}}`

const whoSchema = `{"type":"object","additionalProperties":false,"properties":{}}`

// mail are the tools whose calls a planner answers: the log of the run has who sends.
func mail() []tool.Tool {
	return []tool.Tool{waits(events.ToolMailSend, tool.Idempotent, mailSendSchema),
		waits(events.ToolMailRead, tool.Idempotent, mailReadSchema),
		waits(events.ToolWho, tool.Read, whoSchema), waits(events.ToolHandoff, tool.Idempotent, handoffSchema),
		waits(events.ToolWorkCurrent, tool.Read, whoSchema), waits(events.ToolDeliver, tool.Idempotent, deliverSchema)}
}
