package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// respond asks for a response; more are further fields of the request.
func (d *door) respond(t *testing.T, agent, token, input, more string) tree {
	t.Helper()
	return in[tree](t, d.want(t, 200, "POST", "/v1/responses", token, `{"model":"`+agent+`","input":`+input+more+`}`))
}

func testResponses(t *testing.T, d *door) {
	t.Run("PLUS-16a a response is a run, and the next one goes on in its session", func(t *testing.T) {
		first := d.respond(t, "helper", "both", `"do it"`, "")
		if first.text("status") != "completed" || first.text("output.0.content.0.text") != "It is done." || first.text("object") != "response" || first.at("usage.output_tokens") == nil {
			t.Fatalf("%v", first)
		}
		session := first.text("conversation.id")
		next := d.respond(t, "helper", "both", `[{"role":"user","content":[{"type":"input_text","text":"go on"}]}]`, `,"previous_response_id":"`+first.text("id")+`"`)
		if session == "" || next.text("conversation.id") != session || next.text("id") == first.text("id") {
			t.Errorf("%v", next)
		}
		if named := d.respond(t, "helper", "both", `"x"`, `,"conversation":{"id":"conv1"}`); named.text("conversation.id") != "conv1" {
			t.Errorf("%v", named)
		}
		if got := in[tree](t, d.want(t, 200, "GET", "/v1/responses/"+first.text("id"), "reader", "")); got.text("output.0.content.0.text") != "It is done." {
			t.Errorf("%v", got)
		}
		body, key := `{"model":"helper","input":"x"}`, []string{"Idempotency-Key", "response key"}
		one := in[tree](t, d.want(t, 200, "POST", "/v1/responses", "both", body, key...))
		if again := in[tree](t, d.want(t, 200, "POST", "/v1/responses", "both", body, key...)); again.text("id") != one.text("id") {
			t.Errorf("%v", again)
		}
	})
	t.Run("PLUS-16a a stream has each turn as an item, and begins again for a client that comes back", func(t *testing.T) {
		next, _ := d.posted(t, "/v1/responses", "both", `{"model":"looker","input":"look","stream":true}`)
		events := all(next)
		read := func(events []tree) (texts []string) {
			for i, e := range events {
				if e.at("sequence_number") != float64(i) {
					t.Errorf("event %d: %v", i, e)
				}
				switch e.text("type") {
				case "response.output_item.added":
					texts = append(texts, "")
				case "response.output_text.delta":
					texts[len(texts)-1] += e.text("delta")
				}
			}
			return texts
		}
		if got := read(events); !slices.Equal(got, []string{"I look.", "I have looked."}) {
			t.Errorf("%q", got)
		}
		last := events[len(events)-1]
		if last.text("type") != "response.completed" || last.text("response.output.0.content.0.text") != "I have looked." {
			t.Errorf("%v", last)
		}
		res, err := web.Do(d.request(t, "GET", "/v1/responses/"+last.text("response.id")+"?stream=true", "reader", ""))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
		d.want(t, 400, "GET", "/v1/responses/"+last.text("response.id")+"?stream=true&starting_after=3", "reader", "")
	})
	t.Run("PLUS-16a a gate is a request for an approval, which the next request answers", func(t *testing.T) {
		asked := d.respond(t, "asks", "all", `"x"`, "")
		gate := asked.text("output.0.id")
		if asked.text("status") != "completed" || asked.text("output.0.type") != "mcp_approval_request" || gate == "" || !strings.Contains(asked.text("output.0.arguments"), "proposal_hash") {
			t.Fatalf("%v", asked)
		}
		yes := `[{"type":"mcp_approval_response","approval_request_id":"` + gate + `","approve":true}]`
		d.want(t, 403, "POST", "/v1/responses", "both", `{"model":"asks","input":`+yes+`}`)
		d.want(t, 404, "POST", "/v1/responses", "all", `{"model":"helper","input":`+yes+`}`)
		d.want(t, 400, "POST", "/v1/responses", "all", `{"model":"asks","input":`+strings.Replace(yes, `,"approve":true`, "", 1)+`}`)
		d.want(t, 400, "POST", "/v1/responses", "all", `{"model":"asks","previous_response_id":"other","input":`+yes+`}`)
		for range 2 { // the second time it changes nothing
			done := d.respond(t, "asks", "all", yes, `,"previous_response_id":"`+asked.text("id")+`"`)
			if done.text("id") != asked.text("id") || done.text("output.0.content.0.text") != "It is done." {
				t.Errorf("%v", done)
			}
		}
		asked = d.respond(t, "asks", "all", `"x"`, "")
		no := strings.Replace(strings.Replace(yes, gate, asked.text("output.0.id"), 1), "true", "false", 1)
		if got := d.respond(t, "asks", "all", no, ""); got.text("status") != "incomplete" || got.text("incomplete_details.reason") != "paused" {
			t.Errorf("%v", got)
		}
		for range 2 {
			if got := in[tree](t, d.want(t, 200, "POST", "/v1/responses/"+asked.text("id")+"/cancel", "both", "")); got.text("status") != "cancelled" {
				t.Errorf("%v", got)
			}
		}
	})
	t.Run("PLUS-16a in the background it is answered at once, and a run that fails is a failed response", func(t *testing.T) {
		got := d.respond(t, "broken", "both", `"x"`, `,"background":true`)
		for got.text("status") != "failed" {
			if s := got.text("status"); s != "queued" && s != "in_progress" {
				t.Fatalf("%v", got)
			}
			pause(t)
			got = in[tree](t, d.want(t, 200, "GET", "/v1/responses/"+got.text("id"), "reader", ""))
		}
		if !strings.Contains(got.text("error.message"), "the model is gone") {
			t.Errorf("%v", got)
		}
		next, _ := d.posted(t, "/v1/responses", "both", `{"model":"broken","input":"x","stream":true}`)
		if events := all(next); events[len(events)-1].text("type") != "response.failed" {
			t.Errorf("%v", events)
		}
	})
	t.Run("PLUS-16a what is malformed or not permitted starts nothing, and errors have OpenAI's form", func(t *testing.T) {
		fine := `{"model":"helper","input":"x"}`
		for _, c := range []struct {
			token, body string
			status      int
			code        string
		}{{"", fine, 401, "invalid_api_key"}, {"reader", fine, 403, "scope"}, {"writer", fine, 403, "scope"}, {"both", `{"model":"nobody","input":"x"}`, 404, "model_not_found"},
			{"both", `{`, 400, "bad_request"}, {"both", `{"model":"helper"}`, 400, "bad_request"}, {"both", `{"model":"helper","input":[]}`, 400, "bad_request"}, {"both", `{"model":"helper","input":7}`, 400, "bad_request"},
			{"both", `{"model":"helper","input":[{"role":"user","content":[{"type":"input_image"}]}]}`, 400, "bad_request"}, {"both", `{"model":"helper","input":"x","previous_response_id":"none"}`, 404, "not_found"},
			{"both", `{"model":"helper","input":"x","conversation":"../x"}`, 400, "bad_input"}, {"both", `{"model":"helper","input":"` + strings.Repeat("x", 300<<10) + `"}`, 413, "too_large"},
			{"all", `{"model":"helper","input":[{"type":"mcp_approval_response","approval_request_id":"none/g","approve":true}]}`, 404, "not_found"}} {
			a := d.do(t, "POST", "/v1/responses", c.token, c.body)
			if got := in[tree](t, a); a.status != c.status || got.text("error.code") != c.code {
				t.Errorf("%.80s: %d %s", c.body, a.status, a.body)
			}
		}
		d.want(t, 404, "GET", "/v1/responses/none", "reader", "")
		d.want(t, 404, "GET", "/v1/responses/none?stream=true", "reader", "")
		d.want(t, 403, "POST", "/v1/responses/none/cancel", "reader", "")
	})
}
