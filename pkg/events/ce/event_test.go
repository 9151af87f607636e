package ce_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events/ce"
)

// sdk is what the official SDK makes of an event.
func sdk(data []byte) (ce.Envelope, []byte, error) {
	var e cloudevents.Event
	if err := e.UnmarshalJSON(data); err != nil {
		return ce.Envelope{}, nil, err
	}
	return sdkEnvelope(e)
}

func sdkEnvelope(e cloudevents.Event) (ce.Envelope, []byte, error) {
	if err := e.Validate(); err != nil {
		return ce.Envelope{}, nil, err
	}
	trace, _ := e.Extensions()["traceparent"].(string)
	return ce.Envelope{ID: e.ID(), Source: e.Source(), Type: e.Type(), TraceParent: trace}, e.Data(), nil
}

// members are values, good and bad, for the members of an event. Not among them is what the SDK reads in one order of
// the members and refuses in another: null, an empty datacontenttype, and data_base64 that is no string.
var members = map[string][]string{
	"id":              {`"1"`, `"a b"`, `""`, `" "`, `7`, `"\u00e9"`},
	"source":          {`"/s"`, `"https://example.com/a?b=c"`, `"/a b"`, `"%zz"`, `""`, `":"`, `true`},
	"type":            {`"t"`, `"com.example.built"`, `""`, `{}`},
	"subject":         {`"s"`, `""`, `"  "`, `[]`, `12`},
	"time":            {`"2026-01-31T12:00:00Z"`, `"2026-01-31T12:00:00.123+02:00"`, `"yesterday"`, `""`, `1`},
	"datacontenttype": {`"application/json"`, `"application/json; charset=utf-8"`, `"text/json"`, `"text/plain"`, `"a/"`, `";"`, `3`},
	"dataschema":      {`"https://example.com/s.json"`, `"/relative"`, `""`, `"%zz"`, `"urn:x:y"`},
	"traceparent":     {`"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`, `""`, `1`, `{}`},
	"tenant":          {`"x"`, `true`, `12`, `1.5`, `-2147483648`, `2147483648`, `[1]`, `{"a":1}`},
	"Tenant2":         {`"x"`, `false`},
	"ID":              {`"2"`},
	"a-b":             {`"x"`},
	"schemaurl":       {`"x"`},
	"data":            {`{"a":[1,"<b>"]}`, `"text"`, `null`, `12`, `"\u00e9\n"`},
	"data_base64":     {`"eyJhIjoxfQ=="`, `"AP8="`, `""`, `"*"`, `"eyJ"`},
}

func TestStructured(t *testing.T) {
	t.Parallel()
	t.Run("EVT-13 an event is read as the official SDK reads it, and refused where that refuses it", func(t *testing.T) {
		t.Parallel()
		names := []string{"subject", "time", "datacontenttype", "dataschema", "traceparent", "tenant", "Tenant2", "ID", "a-b", "schemaurl"}
		read := 0
		rapid.Check(t, func(t *rapid.T) {
			list := []string{`"specversion":"1.0"`}
			add := func(name string, good int) {
				list = append(list, `"`+name+`":`+members[name][min(good, rapid.IntRange(0, len(members[name])-1).Draw(t, name))])
			}
			for _, name := range []string{"id", "source", "type"} {
				if rapid.IntRange(0, 19).Draw(t, "lacks "+name) > 0 {
					// Mostly good, so that the rest of an event is read at all.
					add(name, rapid.SampledFrom([]int{0, 0, 0, 1, 1, 9}).Draw(t, "good"))
				}
			}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID).Draw(t, "optional") {
				add(name, rapid.SampledFrom([]int{0, 1, 2, 3, 9}).Draw(t, "good"))
			}
			if data := rapid.SampledFrom([]string{"", "data", "data", "data_base64"}).Draw(t, "data"); data != "" {
				add(data, 9)
			}
			body := []byte("{" + strings.Join(rapid.Permutation(list).Draw(t, "order"), ",") + "}")
			want, wantData, wantErr := sdk(body)
			got, data, err := ce.Open(body, none)
			if (err != nil) != (wantErr != nil) || got != want || !bytes.Equal(data, wantData) {
				// A key in two cases is an error of ours alone.
				if err != nil && strings.Contains(err.Error(), "is used twice") {
					return
				}
				t.Fatalf("%s\n got %+v %q %v\nwant %+v %q %v", body, got, data, err, want, wantData, wantErr)
			}
			if err == nil {
				read++
			}
		})
		if read < 10 {
			t.Errorf("%d events were read, want at least 10 for a comparison", read)
		}
	})
	t.Run("EVT-13 data of each content type are those that the official SDK reads", func(t *testing.T) {
		t.Parallel()
		for _, kind := range append(members["datacontenttype"], `"application/cloudevents+json"`, `"application/cloudevents-batch+json"`) {
			for _, data := range members["data"] {
				body := []byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":` + kind + `,"data":` + data + `}`)
				want, wantData, wantErr := sdk(body)
				got, read, err := ce.Open(body, none)
				if (err != nil) != (wantErr != nil) || got != want || !bytes.Equal(read, wantData) {
					t.Errorf("%s\n got %+v %q %v\nwant %+v %q %v", body, got, read, err, want, wantData, wantErr)
				}
			}
		}
	})
	t.Run("EVT-13 an attribute that is null is absent", func(t *testing.T) {
		t.Parallel()
		env, data, err := ce.Open([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":null,"time":null,
			"datacontenttype":null,"dataschema":null,"traceparent":null,"tenant":null,"data_base64":null,"data":{}}`), none)
		if want := (ce.Envelope{ID: "1", Source: "/s", Type: "t"}); err != nil || env != want || string(data) != "{}" {
			t.Errorf("got %+v %q %v", env, data, err)
		}
	})
	for what, c := range map[string]struct{ rest, want string }{
		"data in both forms":       {`"data":{},"data_base64":"e30="`, `"data_base64"`},
		"an id of other letters":   {`"ID":"1"`, "is used twice"},
		"a subject of other case":  {`"Subject":"s"`, "write it as subject"},
		"a time of another form":   {`"time":"tomorrow"`, "2026-01-31T12:00:00Z"},
		"an attribute with a dash": {`"a-b":"1"`, "a to z"},
		"a list as an attribute":   {`"tenant":[]`, "want a string, a boolean"},
		"a text that is none":      {`"datacontenttype":"text/plain","data":{}`, "want a string"},
		"a number of 64 bits":      {`"tenant":1.5e300`, `"tenant"`},
	} {
		t.Run("SAFE-12 the refusal of an event with "+what+" names it", func(t *testing.T) {
			t.Parallel()
			env, data, err := ce.Open([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t",`+c.rest+`}`), none)
			if err == nil || !strings.Contains(err.Error(), c.want) || data != nil || env != (ce.Envelope{}) {
				t.Errorf("got %+v %q %v, want an error with %q", env, data, err, c.want)
			}
		})
	}
	t.Run("SAFE-12 an attribute may be as long as its limit and no longer", func(t *testing.T) {
		t.Parallel()
		for n, ok := range map[int]bool{ce.MaxAttribute: true, ce.MaxAttribute + 1: false} {
			body := `{"specversion":"1.0","id":"` + strings.Repeat("x", n) + `","source":"/s","type":"t"}`
			if _, _, err := ce.Open([]byte(body), none); (err == nil) != ok {
				t.Errorf("%d bytes: got %v", n, err)
			}
		}
	})
	t.Run("EVT-13 what is sent as a CloudEvent and has no specversion is refused", func(t *testing.T) {
		t.Parallel()
		header := func(name string) string {
			return map[string]string{"Content-Type": "application/cloudevents+json"}[name]
		}
		for _, body := range []string{`{"id":"1","source":"/s","type":"t"}`, `{"specversion":null}`, `{"SpecVersion":"1.0","id":"1","source":"/s","type":"t"}`, `null`, `[]`, `{`, ``} {
			if _, data, err := ce.Open([]byte(body), header); err == nil || data != nil {
				t.Errorf("%s: got %q %v", body, data, err)
			}
		}
	})
}

func TestBinary(t *testing.T) {
	t.Parallel()
	t.Run("EVT-13 attributes in headers are read as the official SDK reads them", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			value := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
			headers := map[string]string{"ce-specversion": "1.0", "ce-id": value("id", "1", " 1 ", " ", ""),
				"ce-source": value("source", "/s", "/a b", "%zz", "", " "), "ce-type": value("type", "t", " t", ""),
				"ce-traceparent": value("trace", "", "x")}
			body := []byte(value("data", `{"a":1}`, `"text"`, `12`, `{`, `{}{}`))
			e := cloudevents.New("1.0")
			e.SetID(headers["ce-id"])
			e.SetSource(headers["ce-source"])
			e.SetType(headers["ce-type"])
			if tp := headers["ce-traceparent"]; tp != "" {
				e.SetExtension("traceparent", tp)
			}
			want, wantData, wantErr := ce.Envelope{}, []byte(nil), e.SetData("application/json", json.RawMessage(body))
			if wantErr == nil {
				want, wantData, wantErr = sdkEnvelope(e)
			}
			got, data, err := ce.Open(body, func(name string) string { return headers[name] })
			if (err != nil) != (wantErr != nil) || got != want || !bytes.Equal(data, wantData) {
				t.Fatalf("%q %s\n got %+v %q %v\nwant %+v %q %v", headers, body, got, data, err, want, wantData, wantErr)
			}
		})
	})
}
