package policy_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/egress/policy"
)

func list(t *testing.T, entries ...string) policy.List {
	t.Helper()
	l, err := policy.ParseList(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestJudge(t *testing.T) {
	t.Parallel()
	l := list(t, "api.example.com", "*.github.com", "git.example.com:22", "any.example.com:*", "10.1.2.3:5000", "[fd00::1]", "8.8.8.8", "Upper.Example.COM.", "xn--bcher-kva.example")
	for _, tc := range []struct {
		target, rule string
	}{
		{"api.example.com:443", "api.example.com"},
		{"api.example.com:80", "api.example.com"},
		{"API.Example.com.:443", "api.example.com"},
		{"api.example.com:8443", ""},
		{"api.example.com.evil.net:443", ""},
		{"notapi.example.com:443", ""},
		{"x.github.com:443", "*.github.com"},
		{"a.b.c.github.com:443", "*.github.com"},
		{"github.com:443", ""},
		{"evilgithub.com:443", ""},
		{"x.github.com.:443", "*.github.com"},
		{"x.github.com:22", ""},
		{"git.example.com:22", "git.example.com:22"},
		{"git.example.com:443", ""},
		{"any.example.com:9418", "any.example.com:*"},
		{"10.1.2.3:5000", "10.1.2.3:5000"},
		{"10.1.2.3:443", ""},
		{"10.1.2.4:5000", ""},
		{"[::ffff:10.1.2.3]:5000", "10.1.2.3:5000"},
		{"[fd00::1]:443", "[fd00::1]"},
		{"8.8.8.8:443", "8.8.8.8"},
		{"8.8.4.4:443", ""},
		{"upper.example.com:443", "Upper.Example.COM."},
		{"xn--bcher-kva.example:443", "xn--bcher-kva.example"},
		{"127.0.0.1:443", ""},
		{"[::1]:443", ""},
	} {
		t.Run("SBX-13 "+tc.target, func(t *testing.T) {
			t.Parallel()
			target, err := policy.ParseTarget(tc.target, 0)
			if err != nil {
				t.Fatal(err)
			}
			rule, err := l.Judge(target)
			if rule.Text != tc.rule || (err == nil) != (tc.rule != "") {
				t.Errorf("got rule %q, %v; want %q", rule.Text, err, tc.rule)
			}
			var r *policy.Refusal
			if err != nil && !errors.As(err, &r) {
				t.Errorf("got %T, want a refusal", err)
			}
		})
	}
	t.Run("SBX-13 a refusal says which entry would open it", func(t *testing.T) {
		t.Parallel()
		target, err := policy.ParseTarget("pypi.org:443", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Judge(target); err == nil || !strings.Contains(err.Error(), `"pypi.org" to sandbox.network.allowed_hosts`) {
			t.Errorf("got %v", err)
		}
		if _, err := (policy.List{}).Judge(target); err == nil {
			t.Error("an empty list lets something through")
		}
	})
	t.Run("SBX-13 a star opens names and no addresses", func(t *testing.T) {
		t.Parallel()
		l := list(t, "*")
		for text, want := range map[string]bool{"a.example:443": true, "a.example:22": false, "8.8.8.8:443": false, "10.0.0.1:80": false} {
			target, err := policy.ParseTarget(text, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Judge(target); (err == nil) != want {
				t.Errorf("%s: got %v", text, err)
			}
		}
	})
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ":443", "a:", "a:0", "a:65536", "a:+80", "a:080", "a b:80", "a\r\nHost: x:80", "a/b:80", "user@host:80", "http://a:80", "a..b:80", ".a:80", "-a:80", "a-:80",
		"127.1:80", "0x7f.0.0.1:80", "0x7f000001:80", "2130706433:80", "0177.0.0.1:80", "127.0.0.01:80", "1.2.3.4.5:80", "256.1.1.1:80", "a.0x7f:80",
		"[::1:80", "[::1]x:80", "::1:80", "[fe80::1%eth0]:80", "[127.0.0.1]:80", "[a.example]:80",
		"gïthub.com:443", "github。com:443", "ｇithub.com:443", "a%2eb:80", "a\x00b:80", strings.Repeat("a", 64) + ".b:80", strings.Repeat("a.", 127) + "ab:80",
	} {
		t.Run("SBX-13 refused: "+text[:min(len(text), 30)], func(t *testing.T) {
			t.Parallel()
			got, err := policy.ParseTarget(text, 0)
			var r *policy.Refusal
			if !errors.As(err, &r) || r.Code != policy.BadHost {
				t.Errorf("got %v, %v; want a refusal", got, err)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Errorf("the refusal repeats control characters: %q", err)
			}
		})
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "*.", "*.*.a", "a.*.b", "*a.b", "a*", "*.1.2.3.4", "http://a", "a/b", "127.0.0.1", "127.0.0.1:4222", "[::1]", "169.254.169.254", "[fe80::1]", "0.0.0.0", "[::]",
		"224.0.0.1", "255.255.255.255", "168.63.129.16", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "127.1", "a:99999", "a:", "bücher.example"} {
		t.Run("SBX-13 no entry: "+text, func(t *testing.T) {
			t.Parallel()
			if _, err := policy.ParseRule(text); err == nil || !strings.Contains(err.Error(), "allowed host") {
				t.Errorf("got %v, want an error that names the entry", err)
			}
		})
	}
	t.Run("SBX-13 a list at the limit and above", func(t *testing.T) {
		t.Parallel()
		many := make([]string, policy.MaxRules)
		for i := range many {
			many[i] = "a.example"
		}
		if _, err := policy.ParseList(many); err != nil {
			t.Error(err)
		}
		if _, err := policy.ParseList(append(many, "b.example")); err == nil {
			t.Error("one more is accepted")
		}
	})
}

func TestReach(t *testing.T) {
	t.Parallel()
	l := list(t, "a.example", "10.1.2.3", "192.168.0.7:5432")
	target := policy.Target{Name: "a.example", Port: 443}
	for _, text := range []string{"0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.168.1.1", "192.168.0.7",
		"198.18.0.1", "224.0.0.251", "255.255.255.255", "168.63.129.16", "203.0.113.1", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1",
		"2002:7f00:1::", "2001:0:1::1", "2001:db8::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "4000::1", "100::1", "3fff::1"} {
		t.Run("SBX-13 a name does not lead to "+text, func(t *testing.T) {
			t.Parallel()
			got, err := l.Reach(target, []netip.Addr{netip.MustParseAddr(text)})
			var r *policy.Refusal
			if !errors.As(err, &r) || r.Code != policy.NotPublic {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	t.Run("SBX-13 public addresses, and one that is written, are kept", func(t *testing.T) {
		t.Parallel()
		var in []netip.Addr
		for _, s := range []string{"10.0.0.1", "93.184.215.14", "10.1.2.3", "2606:4700::1111", "::1", "::ffff:8.8.8.8", "172.32.0.1", "fe80::1%1"} {
			in = append(in, netip.MustParseAddr(s))
		}
		got, err := l.Reach(target, in)
		var said []string
		for _, a := range got {
			said = append(said, a.String())
		}
		if want := "93.184.215.14 10.1.2.3 2606:4700::1111 8.8.8.8 172.32.0.1"; err != nil || strings.Join(said, " ") != want {
			t.Errorf("got %v, %v; want %s", said, err, want)
		}
		if _, err := l.Reach(target, nil); err == nil {
			t.Error("no address is an address")
		}
	})
}
