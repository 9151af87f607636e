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

func TestAddresses(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-11 an address is shown without its password", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"nats://anna:secret@h:4222,h2": "nats://***@h:4222,h2", "anna:se@cret@h": "***@h", "nats://h": "nats://h"} {
			if got := HideSecrets(in); got != want {
				t.Errorf("shown(%q) = %q, want %q", in, got, want)
			}
		}
		for in, want := range map[string]string{"nats://h": "h:4222", "h:1": "h:1", "wss://h": "h:443", "tls://[::1]:5": "[::1]:5"} {
			if got, err := HostPort(in); err != nil || got != want {
				t.Errorf("hostPort(%q) = %q, %v", in, got, err)
			}
		}
		if _, err := HostPort("nats://"); Code(err) != ExitUsage {
			t.Errorf("error %v", err)
		}
	})
}
