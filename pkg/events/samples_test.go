package events_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
)

// sampleTime is the time in all samples.
var sampleTime = time.Date(2025, 3, 4, 5, 6, 7, 891011000, time.UTC)

// event wraps a payload in a sound envelope.
func event(t interface {
	Helper()
	Fatalf(string, ...any)
}, p events.Payload) events.Event {
	t.Helper()
	aggregate, w, ok := registered(p.Kind())
	if !ok {
		t.Fatalf("%q is not in the vocabulary", p.Kind())
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatalf("encode the payload of %s: %v", p.Kind(), err)
	}
	f := events.Event{
		SpecVersion: "1.0", ID: "000102030405060708090a0b0c0d0e0f", Source: events.Source("demo", w.Author), Type: p.Kind().Type(),
		Subject: "run-1", Time: sampleTime, ContentType: "application/json", Sequence: 7, PrevHash: strings.Repeat("ab", 32),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Data: data,
		Identity: events.Identity{Station: "demo", Run: "run-1", StationRun: "demo-run-1", WorkflowRun: "wf-1", Session: "s-1", AgentID: "coder", AgentName: "coder"},
	}
	if aggregate != events.RunAggregate {
		f.Aggregate, f.Subject, f.TraceParent, f.Identity = aggregate, aggregate+"-1", "", events.Identity{Station: "demo"}
	}
	if aggregate == events.SessionAggregate {
		f.Session = f.Subject
	}
	if p.Kind() == events.RunCreated {
		f.Sequence, f.PrevHash = 1, ""
	}
	return f
}

// every returns the event types of all aggregates.
func every() []events.Type {
	var all []events.Type
	for _, a := range events.Aggregates() {
		all = append(all, a.Types...)
	}
	return all
}

// registered returns an event type and the aggregate that it is of.
func registered(k events.Kind) (aggregate string, w events.Type, ok bool) {
	for _, a := range events.Aggregates() {
		if i := slices.IndexFunc(a.Types, func(w events.Type) bool { return w.Kind == k }); i >= 0 {
			return a.Name, a.Types[i], true
		}
	}
	return "", events.Type{}, false
}

// read reads an event of whatever aggregate its sample is of.
func read(b []byte, k events.Kind) (events.Event, events.Payload, error) {
	name, _, _ := registered(k)
	a, _ := events.AggregateOf(name)
	return events.ReadAs(b, name, a.Lookup)
}

// sample returns a payload of a kind with every field set, also in what it holds, to values made from their names.
func sample(w events.Type) events.Payload {
	p := w.New()
	fill(reflect.ValueOf(p).Elem(), string(w.Kind))
	reflect.ValueOf(p).Elem().FieldByName("Event").SetString(w.Event)
	return p
}

func fill(v reflect.Value, name string) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(sampleTime))
		return
	case json.RawMessage:
		v.SetBytes(fmt.Appendf(nil, `{"%s":"a <b> & ü"}`, name))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(name + " ü \"<&>")
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(len(name)))
	case reflect.Uint64:
		v.SetUint(uint64(len(name)))
	case reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), fmt.Sprintf("%s-%d", name, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, name)
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), e)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	default:
		panic(fmt.Sprintf("no sample for %s: %s", name, v.Type()))
	}
}

// random draws a payload of a kind; its event name is that of the vocabulary, as it is for all that say it.
func random(t *rapid.T, w events.Type) events.Payload {
	p := w.New()
	drawn(t, reflect.ValueOf(p).Elem(), string(w.Kind))
	reflect.ValueOf(p).Elem().FieldByName("Event").SetString(w.Event)
	return p
}

func drawn(t *rapid.T, v reflect.Value, name string) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(rapid.Int64Range(0, 4e9).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, name)).UTC()))
		return
	case json.RawMessage:
		b, _ := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, name))
		v.SetBytes(b)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.String().Draw(t, name))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rapid.Int32().Draw(t, name)))
	case reflect.Uint64:
		v.SetUint(uint64(rapid.Uint32().Draw(t, name)))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Range(0, 2).Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name+" is set") {
			v.Set(reflect.New(v.Type().Elem()))
			drawn(t, v.Elem(), name)
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 2).Draw(t, name+" length"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				drawn(t, v.Index(i), name)
			}
		}
	case reflect.Map:
		if rapid.Bool().Draw(t, name+" is set") {
			v.Set(reflect.MakeMap(v.Type()))
			e := reflect.New(v.Type().Elem()).Elem()
			drawn(t, e, name)
			v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(t, name+" key")).Convert(v.Type().Key()), e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			drawn(t, v.Field(i), v.Type().Field(i).Name)
		}
	default:
		panic(fmt.Sprintf("no random value for %s: %s", name, v.Type()))
	}
}
