package agentdir

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// ids are parts as registered agents have them.
func ids() *rapid.Generator[ID] {
	part := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	return rapid.Custom(func(t *rapid.T) ID {
		return ID{Project: part.Filter(func(s string) bool { return !tree(s) }).Draw(t, "project"), Role: part.Draw(t, "role"), Name: part.Draw(t, "name")}
	})
}

func tree(s string) bool { return s == "session" || s == "workflow" || s == "run" || s == "shared" }

func TestHomes(t *testing.T) {
	t.Parallel()
	t.Run("PROP-28 WS-7 WS-8 path and identity are each other's inverse", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			a, b := ids().Draw(t, "a"), ids().Draw(t, "b")
			at, err := Path(a)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := Parse(at); err != nil || back != a {
				t.Fatalf("%s came back as %+v, %v", at, back, err)
			}
			other, err := Path(b)
			if err != nil || (other == at) != (a == b) {
				t.Fatalf("%+v and %+v have the paths %s and %s, %v", a, b, at, other, err)
			}
		})
	})
	t.Run("PROP-28 WS-8 any text that is taken for a home is the very path of that home", func(t *testing.T) {
		t.Parallel()
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z./\\-]{0,12}(/[a-z._ -]{0,6}){0,4}`))
		rapid.Check(t, func(t *rapid.T) {
			at := text.Draw(t, "path")
			id, err := Parse(at)
			if err != nil {
				if !errors.Is(err, ErrNoHome) {
					t.Fatal(err)
				}
				return
			}
			if back, err := Path(id); err != nil || back != at {
				t.Fatalf("%q is %+v, whose path is %q, %v", at, id, back, err)
			}
		})
	})
	t.Run("WS-8 what is no home is refused", func(t *testing.T) {
		t.Parallel()
		for _, at := range []string{"", "a", "a/b", "a/b/c/d", "/a/b/c", "a//c", "a/../c", "a/b/..", "a/b/c/", "session/a/b", "shared/a/b", "a/b/" + strings.Repeat("x", 65)} {
			if id, err := Parse(at); !errors.Is(err, ErrNoHome) {
				t.Errorf("%q: %+v, %v", at, id, err)
			}
		}
	})
}
