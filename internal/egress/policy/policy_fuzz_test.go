package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/egress/policy"
)

// FuzzTarget reads entries and targets as strangers write them.
func FuzzTarget(f *testing.F) {
	for _, s := range [][2]string{{"*.github.com", "a.github.com:443"}, {"a.example:22", "A.example.:22"}, {"[fd00::1]:5", "[FD00::1]:5"}, {"*", "2130706433:80"}, {"10.0.0.1", "[::ffff:10.0.0.1]:80"}, {"*:*", "0x7f.1:1"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, entry, target string) {
		got, err := policy.ParseTarget(target, 0)
		if err == nil {
			same, again := policy.ParseTarget(got.String(), 0)
			if again != nil || same != got {
				t.Fatalf("%q is read as %s, and that as %s, %v", target, got, same, again)
			}
			if got.Addr.Is4In6() || got.Addr.Zone() != "" || (got.Name != "") == got.Addr.IsValid() {
				t.Fatalf("%q is read as %+v", target, got)
			}
			if got.Name != "" {
				if _, err := netip.ParseAddr(got.Name); err == nil || strings.ToLower(got.Name) != got.Name || strings.ContainsAny(got.Name, " /\\@:%\r\n\x00") {
					t.Fatalf("%q is read as the name %q", target, got.Name)
				}
			}
		} else if strings.ContainsAny(err.Error(), "\r\n\x00\x1b") {
			t.Fatalf("the error repeats control characters: %q", err)
		}
		list, wrong := policy.ParseList([]string{entry})
		if wrong != nil || err != nil {
			return
		}
		if _, err := list.Judge(got); err != nil {
			return
		}
		if got.Addr.IsValid() && !policy.Public(got.Addr) {
			if rule, err := policy.ParseTarget(entry, got.Port); err == nil && rule.Addr != got.Addr {
				t.Fatalf("%q lets %s through", entry, got)
			}
		}
		if got.Addr.IsLoopback() || got.Addr.IsLinkLocalUnicast() || got.Addr.IsMulticast() || got.Addr.IsUnspecified() {
			t.Fatalf("%q lets %s through", entry, got)
		}
		if suffix, ok := strings.CutPrefix(entry, "*."); ok && !strings.Contains(suffix, ":") && !strings.HasSuffix(got.Name, "."+strings.TrimSuffix(strings.ToLower(suffix), ".")) {
			t.Fatalf("%q lets %s through", entry, got)
		}
	})
}
