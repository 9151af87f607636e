package ce_test

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
)

// A task may be typed by hand, or be a CloudEvent in either form: structured, or with its attributes in headers.
func ExampleRead() {
	none := func(string) string { return "" }
	headers := map[string]string{"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/ci", "ce-type": events.TaskType}
	for _, m := range []struct {
		data   string
		header func(string) string
	}{
		{`{"agent":"coder","task":"make the tests pass"}`, none},
		{`{"specversion":"1.0","id":"7","source":"/ci","type":"` + events.TaskType + `","data":{"agent":"coder","task":"make the tests pass"}}`, none},
		{`{"agent":"coder","task":"make the tests pass"}`, func(name string) string { return headers[name] }},
	} {
		var t events.Task
		env, err := ce.Read([]byte(m.data), m.header, events.TaskType, &t)
		fmt.Printf("%q %s: %s %v\n", env.ID, t.Agent, t.Task, err)
	}
	// Output:
	// "" coder: make the tests pass <nil>
	// "7" coder: make the tests pass <nil>
	// "7" coder: make the tests pass <nil>
}

// Open leaves the data as they are.
func ExampleOpen() {
	env, data, err := ce.Open([]byte(`{"specversion":"1.0","id":"7","source":"/ci","type":"com.example.built","data":{"ok":true}}`), func(string) string { return "" })
	fmt.Println(env.Type, string(data), err)
	// Output: com.example.built {"ok":true} <nil>
}

// Strict refuses what a decoder would pass over: unknown keys, a key twice, a second document.
func ExampleStrict() {
	for _, text := range []string{`{"agent":"a","task":"t"}`, `{"agent":"a","tusk":"t"}`, `{"agent":"a","agent":"b"}`, `{} {}`} {
		var t events.Task
		fmt.Println(ce.Strict([]byte(text), &t) == nil)
	}
	// Output:
	// true
	// false
	// false
	// false
}
