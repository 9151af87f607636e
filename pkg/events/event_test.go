package events_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	word, _ := events.Lookup(events.CallStarted)
	for name, spoil := range map[string]func(*events.Event){
		"another specversion":           func(f *events.Event) { f.SpecVersion = "0.3" },
		"no specversion":                func(f *events.Event) { f.SpecVersion = "" },
		"no id":                         func(f *events.Event) { f.ID = "" },
		"no station":                    func(f *events.Event) { f.Station = "" },
		"no run":                        func(f *events.Event) { f.Run, f.Subject = "", "" },
		"a run id that is no token":     func(f *events.Event) { f.Run, f.Subject = "a.>", "a.>" },
		"a station that is no token":    func(f *events.Event) { f.Station, f.Source = "a.b", "/station/a.b/toolrunner" },
		"a subject that is not the run": func(f *events.Event) { f.Subject = "run-2" },
		"no source":                     func(f *events.Event) { f.Source = "" },
		"a source of another station":   func(f *events.Event) { f.Source = "/station/other/toolrunner" },
		"a source without a service":    func(f *events.Event) { f.Source = "/station/demo/" },
		"no time":                       func(f *events.Event) { f.Time = time.Time{} },
		"a time that is not in UTC":     func(f *events.Event) { f.Time = f.Time.In(time.FixedZone("", 3600)) },
		"no sequence":                   func(f *events.Event) { f.Sequence = 0 },
		"no prevhash":                   func(f *events.Event) { f.PrevHash = "" },
		"half a prevhash":               func(f *events.Event) { f.PrevHash = f.PrevHash[:32] },
		"no data":                       func(f *events.Event) { f.Data = json.RawMessage("null") },
		"data of another content type":  func(f *events.Event) { f.ContentType = "text/xml" },
	} {
		t.Run("EVT-8 SAFE-2 an event with "+name+" is damaged", func(t *testing.T) {
			t.Parallel()
			f := event(t, sample(word))
			spoil(&f)
			b, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := events.Decode(b)
			if !errors.Is(err, events.ErrDamaged) || got.ID != "" || got.Data != nil {
				t.Errorf("got %+v, %v; want nothing and ErrDamaged", got, err)
			}
		})
	}
	t.Run("EVT-8 SAFE-12 bytes that are no event are damaged, and nothing panics", func(t *testing.T) {
		t.Parallel()
		whole, err := os.ReadFile(golden(events.CallStarted))
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(strings.TrimSpace(string(whole))) {
			if _, err := events.Decode(whole[:n]); !errors.Is(err, events.ErrDamaged) {
				t.Fatalf("the first %d bytes: got %v, want ErrDamaged", n, err)
			}
		}
		for _, s := range []string{"", "null", "[]", "5", `"x"`, "\x00", string(whole) + "x", strings.Repeat("[", 100_000)} {
			var unknown *events.UnknownTypeError
			if _, err := events.Decode([]byte(s)); !errors.Is(err, events.ErrDamaged) && !errors.As(err, &unknown) {
				t.Errorf("%.20q: got %v, want an error", s, err)
			}
		}
	})
	t.Run("EVT-7 a kind or version that this program does not know is named", func(t *testing.T) {
		t.Parallel()
		for _, typ := range []string{"dev.inspan.call.started.v2", "dev.inspan.call.invented.v1", "dev.inspan.call.started",
			"com.example.call.started.v1", "", "dev.inspan..v1", "dev.inspan.v1"} {
			f := event(t, sample(word))
			f.Type = typ
			b, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var unknown *events.UnknownTypeError
			got, err := events.Decode(b)
			if !errors.As(err, &unknown) || unknown.Type != typ || got.ID != "" {
				t.Fatalf("type %q: got %+v, %v; want an UnknownTypeError", typ, got, err)
			}
			if !strings.Contains(err.Error(), "v1") || !strings.Contains(err.Error(), typ) {
				t.Errorf("the error names neither what was found nor what is supported: %v", err)
			}
		}
	})
	t.Run("EVT-8 data that does not fit its kind is damaged", func(t *testing.T) {
		t.Parallel()
		for _, data := range []string{`5`, `[]`, `"x"`, `{"attempt":"one"}`, `{"attempt":1e99}`, `{"tool_id":{}}`} {
			f := event(t, sample(word))
			f.Data = json.RawMessage(data)
			b, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := events.Decode(b)
			if err != nil {
				t.Fatalf("data %s: the envelope is sound: %v", data, err)
			}
			if p, err := got.Payload(); !errors.Is(err, events.ErrDamaged) || p != nil {
				t.Errorf("data %s: got %+v, %v; want nothing and ErrDamaged", data, p, err)
			}
		}
	})
	t.Run("EVT-6 a field that a newer service added is no fault", func(t *testing.T) {
		t.Parallel()
		b, err := os.ReadFile(golden(events.CallStarted))
		if err != nil {
			t.Fatal(err)
		}
		grown := strings.Replace(string(b), `"data": {`, `"newer": 1, "data": {"newer": {"a": []},`, 1)
		f, err := events.Decode([]byte(grown))
		if err != nil || grown == string(b) {
			t.Fatalf("got %v", err)
		}
		if _, err := f.Payload(); err != nil {
			t.Errorf("payload: %v", err)
		}
	})
}

func TestAuthor(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-2 the author is the service in the source, if the station is ours", func(t *testing.T) {
		t.Parallel()
		for source, want := range map[string]events.Service{
			"/station/demo/planner": events.Planner, "/station/demo/x": "x", "/station/other/planner": "", "planner": "", "/station/demo": "",
		} {
			f := events.Event{Source: source, Identity: events.Identity{Station: "demo"}}
			if got := f.Author(); got != want {
				t.Errorf("%s: got %q, want %q", source, got, want)
			}
		}
	})
}

func TestPreview(t *testing.T) {
	t.Parallel()
	t.Run("OBS-6 an input is shown whole up to the limit and shortened above, in valid text", func(t *testing.T) {
		t.Parallel()
		for _, n := range []int{0, 10, events.MaxPreview, events.MaxPreview + 1, 10 * events.MaxPreview} {
			for _, unit := range []string{"x", "ü", "漢", "🙂"} {
				in := strings.Repeat(unit, n)[:n/len(unit)*len(unit)]
				got := events.Preview(json.RawMessage(in))
				switch {
				case len(in) <= events.MaxPreview && got != in:
					t.Errorf("%d bytes: got %d bytes, want them whole", len(in), len(got))
				case len(got) > events.MaxPreview+3:
					t.Errorf("%d bytes: got %d bytes, want at most %d", len(in), len(got), events.MaxPreview+3)
				case strings.ToValidUTF8(got, "") != got:
					t.Errorf("%d bytes of %s: the preview is cut inside a character", len(in), unit)
				}
			}
		}
	})
}
