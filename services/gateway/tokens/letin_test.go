package tokens_test

import (
	"errors"
	"testing"

	"github.com/inspan/inspan/services/gateway/tokens"
)

func TestLetIn(t *testing.T) {
	t.Parallel()
	two := tokens.List{Tokens: []tokens.Token{{Name: "ci"}, {Name: "bot"}}}
	for want, c := range map[string]struct {
		list   tokens.List
		err    error
		people string
	}{
		"no one is let in until there is a token: inspan token add NAME": {},
		"tokens: ci, bot":                                                        {list: two},
		"people of https://login.example.com":                                    {people: "https://login.example.com"},
		"people of https://login.example.com; tokens: ci, bot":                   {list: two, people: "https://login.example.com"},
		"no one is let in: the list of tokens cannot be read":                    {err: errors.New("x")},
		"people of https://login.example.com; the list of tokens cannot be read": {err: errors.New("x"), people: "https://login.example.com"},
	} {
		t.Run("TRIG-3 the banner says who is let in: "+want, func(t *testing.T) {
			t.Parallel()
			if got := tokens.LetIn(c.list, c.err, c.people); got != want {
				t.Errorf("%q", got)
			}
		})
	}
}
