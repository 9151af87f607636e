package app

import (
	"os/user"
	"testing"
)

func TestMe(t *testing.T) {
	system := "" // on a machine that does not know who runs a program
	if u, err := user.Current(); err == nil {
		system = u.Username
	}
	for name, tc := range map[string]struct{ user, logname, want string }{
		"who answers is USER": {"anna", "ben", "anna"},
		"or LOGNAME":          {"", "ben", "ben"},
		"and where neither is set, whom the system says it is": {"", "", system},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("USER", tc.user)
			t.Setenv("LOGNAME", tc.logname)
			t.Setenv("INSPAN_APPROVER", "")
			if got := new(Settings).Me(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
