package guard

import (
	"fmt"
	"slices"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"pgregory.net/rapid"
)

var (
	actions = rapid.SampledFrom([]string{Allow, Ask, Deny})
	aWord   = rapid.SampledFrom([]string{"git", "push", "rm", "-f", "--force", "-rf", "x", "+main", "--", "/", "a" + Unknown, Many, "--fo"})
	aGlob   = rapid.SampledFrom([]string{"git", "push", "*", "**", "{x,rm}", "+*", "-*"})
)

func aMatch(t *rapid.T, name string) events.Match {
	return events.Match{
		Argv:         rapid.SliceOfN(aGlob, 0, 3).Draw(t, name+" argv"),
		FlagsAny:     rapid.SliceOfN(rapid.SampledFrom([]string{"-f", "--force", "-r|-R"}), 0, 2).Draw(t, name+" flags"),
		RefspecForce: rapid.Bool().Draw(t, name+" refspec"),
	}
}

func aLayer(t *rapid.T, n int) []events.Rule {
	var rules []events.Rule
	for i := range rapid.IntRange(0, 5).Draw(t, "rules") {
		r := events.Rule{ID: fmt.Sprintf("r%d", i), Action: actions.Draw(t, "action"), Reason: fmt.Sprint(n), Match: aMatch(t, "match")}
		r.Remove = rapid.IntRange(0, 4).Draw(t, "remove") == 0
		if m := aMatch(t, "except"); aboutCommands(m) && rapid.Bool().Draw(t, "excepted") {
			r.Except = &m
		}
		rules = append(rules, r)
	}
	return rules
}

func anAction(t *rapid.T) Action {
	return Action{
		Tool:     rapid.SampledFrom([]string{"bash", "read", "mcp:a/b"}).Draw(t, "tool"),
		Commands: rapid.SliceOfN(rapid.SliceOfN(aWord, 0, 6), 0, 4).Draw(t, "commands"),
		Loose:    rapid.SliceOfN(rapid.SliceOfN(aWord, 0, 6), 0, 2).Draw(t, "loose"),
		Unclear:  rapid.SampledFrom([]string{"", "why"}).Draw(t, "unclear"),
		Outside:  rapid.SampledFrom([][]string{nil, {"../x"}}).Draw(t, "outside"),
	}
}

func mustBuild(t *rapid.T, layers ...[]events.Rule) Set {
	set, err := Build(layers...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestProperties(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-6 the same layers give the same digest and verdicts, in whatever order a layer is written", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			low, high, a := aLayer(t, 1), aLayer(t, 2), anAction(t)
			one := mustBuild(t, low, high)
			other := mustBuild(t, rapid.Permutation(low).Draw(t, "low"), rapid.Permutation(high).Draw(t, "high"))
			if one.Digest() != other.Digest() || len(one.Digest()) != 64 {
				t.Fatalf("digests %s and %s", one.Digest(), other.Digest())
			}
			if x, y := one.Judge(a), other.Judge(a); x != y {
				t.Fatalf("verdicts %+v and %+v", x, y)
			}
		})
	})
	t.Run("GUARD-6 another rule gives another digest", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			layer := aLayer(t, 1)
			more := append(slices.Clone(layer), events.Rule{ID: "more", Action: actions.Draw(t, "action")})
			if mustBuild(t, layer).Digest() == mustBuild(t, more).Digest() {
				t.Fatal("equal digests")
			}
		})
	})
	t.Run("GUARD-5 deny wins over ask and ask over allow, as a plain count of the matches says", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			set, a := mustBuild(t, aLayer(t, 1), aLayer(t, 2)), anAction(t)
			want := Allow
			if a.Unclear != "" {
				want = Ask
			}
			var commands []command
			for _, argv := range a.Commands {
				if len(argv) > 0 {
					commands = append(commands, read(argv))
				}
			}
			for _, e := range set.entries {
				t, _ := holds(e.Rule, a, commands)
				if t == no {
					t = suspected(e.Rule, a)
				}
				got := answer(e, t).Action
				if got == Deny || got == Ask && want != Deny {
					want = got
				}
			}
			if got := set.Judge(a); got.Action != want {
				t.Fatalf("got %+v, want %s", got, want)
			}
		})
	})
	t.Run("GUARD-5 more commands never loosen a verdict", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			set, a := mustBuild(t, aLayer(t, 1)), anAction(t)
			before := set.Judge(a)
			if !slices.ContainsFunc(a.Commands, func(argv []string) bool { return len(argv) > 0 }) {
				return // rules without conditions read a call without commands as a whole
			}
			a.Commands = append(a.Commands, rapid.SliceOfN(aWord, 1, 6).Draw(t, "more"))
			if after := set.Judge(a); rank(after.Action) < rank(before.Action) {
				t.Fatalf("%+v became %+v", before, after)
			}
		})
	})
	t.Run("GUARD-13 no layer loosens a locked deny", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			set := mustBuild(t, aLayer(t, 1), aLayer(t, 2), []events.Rule{{ID: "open", Action: Allow}})
			if got := set.Judge(bash("git push --force origin main")); got.Action != Deny {
				t.Fatalf("%+v", got)
			}
		})
	})
}
