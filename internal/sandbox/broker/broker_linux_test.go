package broker

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParse(t *testing.T) {
	t.Parallel()
	four := []byte{unix.AF_INET, 0, 0x10, 0x7e, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	six := append([]byte{unix.AF_INET6, 0, 0x10, 0x7e, 0, 0, 0, 0}, make([]byte, 20)...)
	six[23] = 1
	mapped := append([]byte{unix.AF_INET6, 0, 0x10, 0x7e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 127, 0, 0, 1)
	for name, c := range map[string]struct {
		raw  []byte
		want string
		err  error
	}{
		"version 4":                  {four, "127.0.0.1:4222", nil},
		"version 6":                  {six, "[::1]:4222", nil},
		"version 4 in 6":             {mapped, "127.0.0.1:4222", nil},
		"version 6, without a scope": {six[:24], "[::1]:4222", nil},
		"too short":                  {four[:15], "", unix.EINVAL},
		"6 too short":                {six[:23], "", unix.EINVAL},
		"a socket that is a file":    {[]byte{unix.AF_UNIX, 0, '/', 'x'}, "", unix.EPERM},
		"the end of a connection":    {[]byte{unix.AF_UNSPEC, 0}, "", nil},
	} {
		t.Run("SBX-14 "+name, func(t *testing.T) {
			t.Parallel()
			to, ok, err := parse(c.raw)
			got := ""
			if ok {
				got = to.String()
			}
			if got != c.want || err != c.err { //nolint:errorlint // of the kernel
				t.Errorf("got %q, %v, want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func TestOwn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	for address, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "0.0.0.0": true, "::1": true, "::": true, "::ffff:127.0.0.1": true,
		"198.51.100.1": false, "2001:db8::1": false} {
		t.Run("SBX-14 "+address, func(t *testing.T) {
			t.Parallel()
			if got := Own(netip.AddrPortFrom(netip.MustParseAddr(address), port)); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	t.Run("SBX-14 a port at which nothing here listens", func(t *testing.T) {
		t.Parallel()
		if Own(netip.MustParseAddrPort("127.0.0.1:1")) {
			t.Error("it is taken for this process's")
		}
	})
}

func TestWritable(t *testing.T) {
	t.Parallel()
	b := &Broker{rules: Rules{Writable: []string{"/w/ws", "/w/file"}}}
	for path, want := range map[string]bool{"/w/ws": true, "/w/ws/a/b": true, "/w/file": true, "/w/wsx": false, "/w/ws (deleted)": false, "/w": false, "/": false,
		"pipe:[1]": false, "/memfd:x": false, "/w/file2": false} {
		t.Run("SBX-14 "+path, func(t *testing.T) {
			t.Parallel()
			if got := b.writable(path); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
