package egress_test

import (
	"bytes"
	"testing"

	"github.com/inspan/inspan/internal/egress"
	"github.com/inspan/inspan/internal/egress/policy"
)

// FuzzHello reads the greeting of TLS from strangers.
func FuzzHello(f *testing.F) {
	f.Add([]byte("\x16\x03\x01\x00\x05hello"))
	f.Add(greeting(f, "a.example"))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, taken, err := egress.ReadHello(data)
		if err != nil {
			return
		}
		if !bytes.HasPrefix(data, taken) {
			t.Fatalf("took %q of %q", taken, data)
		}
		if name != "" && !bytes.Contains(data, []byte(name)) {
			t.Fatalf("the name %q is not in it", name)
		}
	})
}

// FuzzSocks reads what strangers say in SOCKS5.
func FuzzSocks(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x09a.example\x01\xbb"))
	f.Add([]byte("\x05\x02\x00\x02\x01\x01u\x02pw\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01\x00\x50"))
	f.Fuzz(func(t *testing.T, data []byte) {
		token, target, answered, err := egress.ReadSocks(data)
		if len(answered) > 4 || len(token) > 255 {
			t.Fatalf("answered %x, token %q", answered, token)
		}
		if err != nil {
			return
		}
		if _, err := policy.ParseTarget(target, 0); err != nil {
			t.Fatalf("the target %q is none: %v", target, err)
		}
	})
}
