package ce_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

// slow is far above what any message within the limits needs.
const slow = 10 * time.Second

// FuzzOpen proves SAFE-12 and EVT-1: any message is taken apart or refused, in bounded time; a bare document stays as
// it is; a task that was read is the same when it is written and read again, bare or as a CloudEvent of either form.
func FuzzOpen(f *testing.F) {
	for _, data := range []string{`{"agent":"a","task":"b"}`, `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"agent":"a","task":"b"}}`,
		`{"specversion":"0.3","id":"1","source":"/s","type":"t"}`, `{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"eyJhZ2VudCI6ImEifQ=="}`,
		`{"specversion":"1.0","id":"\u202e","source":"\u0000","type":"t","traceparent":"x","data":"text"}`, `{"specversion":1}`, `{"agent":"a"}{}`, "", "null", "\xff",
		strings.Repeat("[", 100), strings.Repeat(`{"a":`, 100), deep("data", "[", "]", 100), deep("x", `{"a":`, "}", 100)} {
		f.Add([]byte(data), "", "", "", "", "", "")
		f.Add([]byte(data), "application/cloudevents+json; charset=utf-8", "", "", "", "", "")
		f.Add([]byte(data), "", "1.0", "id", "/source", "type", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		f.Add([]byte(data), "", "9.9", "\x00", "%zz", "\u202e", "\r\n")
	}
	f.Fuzz(takeApart)
}

// deep is a CloudEvent with an attribute nested n deep.
func deep(attribute, open, end string, n int) string {
	return `{"specversion":"1.0","id":"1","source":"/s","type":"t","` + attribute + `":` + strings.Repeat(open, n) + "1" + strings.Repeat(end, n) + `}`
}

func takeApart(t *testing.T, data []byte, contentType, version, id, source, kind, trace string) {
	headers := map[string]string{"Content-Type": contentType, "ce-specversion": version, "ce-id": id, "ce-source": source, "Ce-Type": kind, "ce-traceparent": trace}
	begin := time.Now()
	env, body, err := ce.Open(data, func(name string) string { return headers[name] })
	var task events.Task
	strict := ce.Strict(body, &task)
	if took := time.Since(begin); took > slow {
		t.Fatalf("took %s for %d bytes", took, len(data))
	}
	if err != nil {
		if env != (ce.Envelope{}) || body != nil {
			t.Fatalf("an error and a message: %+v, %d bytes", env, len(body))
		}
		return
	}
	if version == "" && id == "" && env == (ce.Envelope{}) && !bytes.Equal(body, data) {
		t.Fatalf("a bare document came out as other bytes: %q", body)
	}
	if env != (ce.Envelope{}) && (env.ID == "" || env.Source == "" || env.Type == "") {
		t.Fatalf("an envelope with blanks: %+v", env)
	}
	if strict != nil {
		return
	}
	if !json.Valid(body) {
		t.Fatalf("a task was read from what is no JSON: %q", body)
	}
	roundTrip(t, task)
}

// roundTrip sends a task in each form.
func roundTrip(t *testing.T, task events.Task) {
	t.Helper()
	bare, err := json.Marshal(task)
	if err != nil {
		t.Fatalf("a task that was read cannot be written: %v", err)
	}
	structured, err := json.Marshal(map[string]any{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json", "data": json.RawMessage(bare)})
	if err != nil {
		t.Fatal(err)
	}
	binary := map[string]string{"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
	for form, m := range map[string]struct {
		data    []byte
		headers map[string]string
	}{"bare": {bare, nil}, "structured": {structured, nil}, "binary": {bare, binary}} {
		_, body, err := ce.Open(m.data, func(name string) string { return m.headers[name] })
		if err != nil {
			t.Fatalf("%s: %v\n%s", form, err, m.data)
		}
		var again events.Task
		if err := ce.Strict(body, &again); err != nil {
			t.Fatalf("%s: %v\n%s", form, err, body)
		}
		if two, err := json.Marshal(again); err != nil || !bytes.Equal(two, bare) {
			t.Fatalf("%s: not the same task (%v):\n%s\n%s", form, err, bare, two)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 large and deep documents are taken apart or refused in bounded time", func(t *testing.T) {
		t.Parallel()
		const size = 250 << 10
		for _, data := range []string{strings.Repeat("[", size), strings.Repeat(`{"a":`, size/5), deep("data", "[", "]", 9_990), deep("data", "[", "]", size/2),
			deep("x", `{"a":`, "}", 9_990), deep("x", `{"a":`, "}", size/6), deep("x", "", "", 0)[:50] + strings.Repeat(`,"a":1`, size/6), `{"specversion":"1.0","id":"` + strings.Repeat("\\u202e", size/6) + `"}`} {
			takeApart(t, []byte(data), "", "", "", "", "", "")
			takeApart(t, []byte(data), "application/cloudevents+json", "1.0", "id", "/source", "type", "")
		}
	})
	t.Run("SAFE-12 a binary CloudEvent of an unknown version is refused", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"", "1", "9.9", "\x00", "1.0 "} {
			headers := map[string]string{"ce-id": "1", "ce-specversion": version, "ce-source": "/s", "ce-type": "t"}
			if env, body, err := ce.Open([]byte(`{}`), func(name string) string { return headers[name] }); err == nil || body != nil {
				t.Errorf("version %q: got %+v, %q, %v; want an error", version, env, body, err)
			}
		}
	})
}

func TestStrict(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 an empty message is refused as empty", func(t *testing.T) {
		t.Parallel()
		var v any
		for _, text := range []string{"", " \n"} {
			if err := ce.Strict([]byte(text), &v); err == nil || !strings.Contains(err.Error(), "it is empty") {
				t.Errorf("%q: got %v", text, err)
			}
		}
	})
	t.Run("SAFE-12 a document may be nested to the limit and no deeper", func(t *testing.T) {
		t.Parallel()
		for depth, ok := range map[int]bool{1: true, ce.MaxDepth: true, ce.MaxDepth + 1: false, 100_000: false} {
			var v any
			if err := ce.Strict([]byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)), &v); (err == nil) != ok {
				t.Errorf("depth %d: got %v", depth, err)
			}
		}
	})
	t.Run("SAFE-12 brackets in texts are no depth", func(t *testing.T) {
		t.Parallel()
		want := strings.Repeat(`[{"\`, 1000)
		b, _ := json.Marshal(want)
		var got string
		if err := ce.Strict(b, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v", err)
		}
	})
}
