package agentfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// commented is a configuration file as people write them.
const commented = `# The configuration of Ada.

station: 'lab'   # the one upstairs

nats:
    url: nats://x:4222 # where
    # how many
    replicas: 3
commands:
  env:
  - A
  - B

  # what else
  read_only: [/usr]
harness:   # of agents
  # steps
  max_steps:   7

  budget: {tool_calls: 5} # little
# the end
`

var editKeys = map[string]Form{"station": FormText, "nats.url": FormText, "nats.replicas": FormWhole, "service.drain": FormDuration,
	"commands.env": FormList, "commands.read_only": FormList, "streaming": FormBool}

func TestEditSettings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, key, value string
		old, want              string
	}{
		{"a value in its place, with what is said behind it", commented, "nats.url", "nats://y:1", "url: nats://x:4222 # where", "url: nats://y:1 # where"},
		{"a quoted value", commented, "station", "home", "station: 'lab'   # the one", "station: home   # the one"},
		{"a value that has to be quoted", commented, "station", "#1: a", "station: 'lab'", `station: "#1: a"`},
		{"a text that looks like something else", commented, "station", "true", "station: 'lab'", `station: "true"`},
		{"a list over lines", commented, "commands.env", "C,D=1", "env:\n  - A\n  - B\n", "env: [C, D=1]\n"},
		{"a list of none", commented, "commands.read_only", "", "[/usr]", "[]"},
		{"a mapping in braces", commented, "harness.budget.tool_calls", "9", "{tool_calls: 5} # little", "{tool_calls: 9} # little"},
		{"one more in braces", commented, "harness.budget.tokens", "100", "{tool_calls: 5}", "{tool_calls: 5, tokens: 100}"},
		{"one more in a block, as far in as the others", commented, "nats.name", "n", "    replicas: 3\n", "    replicas: 3\n    name: n\n"},
		{"a part that is not there", commented, "service.drain", "5s", "# the end\n", "# the end\nservice:\n  drain: 5s\n"},
		{"an empty file", "", "service.drain", "5s", "", "service:\n  drain: 5s\n"},
		{"a file of comments", "# one\n", "station", "a", "# one\n", "# one\nstation: a\n"},
		{"a last line without an end", "station: a", "streaming", "false", "station: a", "station: a\nstreaming: false\n"},
		{"a part with nothing but comments in it", "harness:\n  # max_steps: 5\nstation: a\n", "harness.max_steps", "7", "  # max_steps: 5\n", "  # max_steps: 5\n  max_steps: 7\n"},
		{"a part that is null", "harness: null\n", "harness.max_steps", "7", "harness: null", "harness: {max_steps: 7}"},
		{"lines of Windows", "station: a\r\nstreaming: true\r\n", "station", "b", "station: a\r\n", "station: b\r\n"},
	} {
		t.Run("ID-2 set "+tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := EditSettings("c", []byte(tc.text), editKeys, Edit{Key: tc.key, Value: tc.value})
			if want := strings.Replace(tc.text, tc.old, tc.want, 1); err != nil || string(got) != want {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
			}
		})
	}
	for _, tc := range []struct{ name, key, old, want string }{
		{"a line", "nats.replicas", "    replicas: 3\n", ""},
		{"a list over lines", "commands.env", "  env:\n  - A\n  - B\n", ""},
		{"the last one of a part takes the part along", "harness.budget.tool_calls", "  budget: {tool_calls: 5} # little\n", ""},
		{"a part of the tree", "nats", "nats:\n    url: nats://x:4222 # where\n    # how many\n    replicas: 3\n", ""},
		{"what is not there", "service.drain", "", ""},
	} {
		t.Run("ID-2 unset "+tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := EditSettings("c", []byte(commented), editKeys, Edit{Key: tc.key, Unset: true})
			if want := strings.Replace(commented, tc.old, tc.want, 1); err != nil || string(got) != want {
				t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
			}
		})
	}
	for _, tc := range []struct {
		name, text string
		edit       Edit
		want       string
	}{
		{"no YAML", "a: [", Edit{Key: "station", Value: "x"}, "c:1: the file is not YAML"},
		{"a value where a part should be", "nats: 5\n", Edit{Key: "nats.url", Value: "x"}, "c:1: nats: the value has the wrong type"},
		{"a root in braces", "{station: a}\n", Edit{Key: "streaming", Value: "true"}, "by hand"},
		{"a root in braces, one of it", "{station: a}\n", Edit{Key: "station", Value: "b"}, "by hand"},
		{"braces over lines", "nats: {\n  url: a,\n  replicas: 3 }\n", Edit{Key: "nats.url", Value: "b"}, "by hand"},
		{"a comment inside of a value", "commands:\n  env:\n    # first\n    - A\n", Edit{Key: "commands.env", Value: "B"}, "by hand"},
		{"a comment behind a part of a value", "commands:\n  env:\n    - A # first\n", Edit{Key: "commands.env", Value: "B"}, "by hand"},
		{"a text with what could be a comment", "station: 'a # b' # c\n", Edit{Key: "station", Value: "B"}, "by hand"},
		{"too large", strings.Repeat("# a\n", MaxSettings/4+1), Edit{Key: "station", Value: "B"}, "too large"},
	} {
		t.Run("ID-2 nothing is lost: "+tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := EditSettings("c", []byte(tc.text), editKeys, tc.edit)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
}

// TestEditSettingsProp makes changes in files of any layout.
func TestEditSettingsProp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := drawSettings(t)
		e := Edit{Key: rapid.SampledFrom([]string{"station", "nats.url", "nats.replicas", "commands.env", "harness.max_steps", "harness.budget.tool_calls", "service.drain"}).Draw(t, "key"), Unset: rapid.Bool().Draw(t, "unset")}
		switch e.Key {
		case "nats.replicas", "harness.max_steps", "harness.budget.tool_calls":
			e.Value = fmt.Sprint(rapid.IntRange(1, 999).Draw(t, "number"))
		case "service.drain":
			e.Value = "7s"
		case "commands.env":
			e.Value = strings.Join(rapid.SliceOfN(rapid.StringMatching(`[A-Z]{1,3}(=[a-z0-9 '":]*[a-z])?`), 0, 3).Draw(t, "list"), ",")
		default:
			e.Value = rapid.OneOf(rapid.StringMatching(`[ -~]{0,12}`), rapid.StringN(0, 8, 30)).Draw(t, "text")
		}
		out, err := EditSettings("c", []byte(text), editKeys, e)
		if errors.Is(err, ErrByHand) {
			return // nothing was changed
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if a, b := strings.Count(text, "# note"), strings.Count(string(out), "# note"); a != b && !e.Unset {
			t.Fatalf("%d comments became %d\n%s\n%s", a, b, text, out)
		}
		s, _, err := ReadSettings("c", out, editKeys)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, text, out)
		}
		found := false
		for _, got := range s.Entries {
			if got.Key == e.Key {
				if found = true; e.Unset || got.Value != e.Value {
					t.Fatalf("%s is %q, want %q, unset %t\n%s\n%s", e.Key, got.Value, e.Value, e.Unset, text, out)
				}
			}
		}
		if !found && !e.Unset {
			t.Fatalf("%s is not there\n%s\n%s", e.Key, text, out)
		}
		again, err := EditSettings("c", out, editKeys, e)
		if err != nil || string(again) != string(out) {
			t.Fatalf("a second time: %v\n%s\n%s", err, out, again)
		}
	})
}

// drawSettings draws a file: any keys in any order, in lines or in braces, with comments and empty lines between them.
func drawSettings(t *rapid.T) string {
	var b strings.Builder
	gap := func(indent string) {
		b.WriteString(rapid.SampledFrom([]string{"", "", "\n", indent + "# note\n", "\n# note\n"}).Draw(t, "gap"))
	}
	tail := func() string { return rapid.SampledFrom([]string{"", "  # note", " "}).Draw(t, "tail") + "\n" }
	parts := rapid.Permutation([]string{"station", "nats", "commands", "harness", "x-mine"}).Draw(t, "order")
	for _, part := range parts[:rapid.IntRange(0, 5).Draw(t, "parts")] {
		gap("")
		in := rapid.SampledFrom([]string{"  ", "    ", " "}).Draw(t, "indent")
		switch part {
		case "station":
			b.WriteString("station: " + rapid.SampledFrom([]string{"lab", "'a # b'", `"x: y"`, ">-\n" + in + "long\n" + in + "text"}).Draw(t, "station") + tail())
		case "x-mine":
			b.WriteString("x-mine: {a: [1, 2]}" + tail())
		case "nats":
			if rapid.Bool().Draw(t, "braces") {
				b.WriteString("nats: {url: 'a, b', replicas: 3}" + tail())
				continue
			}
			b.WriteString("nats:" + tail())
			gap(in)
			b.WriteString(in + "url: x" + tail())
			gap(in)
			b.WriteString(in + "replicas: 3" + tail())
		case "commands":
			b.WriteString("commands:" + tail() + in + "env:" + tail() + in + rapid.SampledFrom([]string{"- A\n", "  - A\n" + in + "  - B\n"}).Draw(t, "list"))
		case "harness":
			b.WriteString("harness:" + tail())
			if rapid.Bool().Draw(t, "budget") {
				b.WriteString(in + "budget: {tool_calls: 5}" + tail())
			} else {
				b.WriteString(in + "budget:" + tail() + in + in + "tool_calls: 5" + tail())
			}
			gap(in)
		}
	}
	return b.String()
}
