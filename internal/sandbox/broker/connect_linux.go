package broker

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxConnecting is how many connections of one command are being made at a time, each of which has a thread.
	maxConnecting = 64
	// maxAddress is the size of struct sockaddr_storage.
	maxAddress = 128
)

// connect makes a connection in the place of a process, whose socket it is.
func (b *Broker) connect(p process, c call) {
	fd, address, err := b.wantedConnection(p, c)
	if err != nil {
		b.reply(c.ID, err, false)
		return
	}
	if !b.begin(fd) {
		_ = unix.Close(fd)
		b.reply(c.ID, unix.EAGAIN, false)
		return
	}
	b.work.Go(func() {
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&address[0])),
			uintptr(len(address)))
		b.done(fd)
		if errno != 0 {
			b.reply(c.ID, errno, false)
			return
		}
		b.reply(c.ID, nil, false)
	})
}

// begin counts a connection that is being made; it is false where there are too many, or the command has ended.
func (b *Broker) begin(fd int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || len(b.connecting) >= maxConnecting {
		return false
	}
	b.connecting[fd] = struct{}{}
	return true
}

func (b *Broker) done(fd int) {
	b.mu.Lock()
	delete(b.connecting, fd)
	b.mu.Unlock()
	_ = unix.Close(fd)
}

// wantedConnection returns a descriptor of this process for the socket of a call, and the address, which is permitted.
func (b *Broker) wantedConnection(p process, c call) (int, []byte, error) {
	size := int32(uint32(c.Args[2])) //nolint:gosec // as the kernel takes it
	if size < 2 || size > maxAddress {
		return -1, nil, unix.EINVAL
	}
	address, err := p.bytes(c.Args[1], int(size))
	if err != nil {
		return -1, nil, err
	}
	to, ok, err := parse(address)
	if err != nil {
		return -1, nil, err
	}
	if ok && b.rules.Closed != nil && b.rules.Closed(to) {
		return -1, nil, unix.EACCES
	}
	fd, err := p.socket(int(int32(uint32(c.Args[0])))) //nolint:gosec // as the kernel takes it
	return fd, address, err
}

// socket is a descriptor of this process for what a descriptor of the other is.
func (p process) socket(fd int) (int, error) {
	group, err := p.group()
	if err != nil {
		return -1, err
	}
	handle, err := unix.PidfdOpen(group, 0)
	if err != nil {
		return -1, unix.ESRCH
	}
	defer func() { _ = unix.Close(handle) }()
	if !p.valid() {
		return -1, unix.ESRCH
	}
	got, err := unix.PidfdGetfd(handle, fd, 0)
	if err != nil {
		return -1, errno(err, unix.EBADF)
	}
	return got, nil
}

// parse reads an internet address as the kernel does; ok is false for one of AF_UNSPEC, which ends a connection.
func parse(raw []byte) (to netip.AddrPort, ok bool, err error) {
	const least4, least6 = 16, 24
	switch family := binary.NativeEndian.Uint16(raw); {
	case family == unix.AF_UNSPEC:
		return to, false, nil
	case family == unix.AF_INET && len(raw) >= least4:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), binary.BigEndian.Uint16(raw[2:])), true, nil
	case family == unix.AF_INET6 && len(raw) >= least6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])).Unmap(), binary.BigEndian.Uint16(raw[2:])), true, nil
	case family == unix.AF_INET || family == unix.AF_INET6:
		return to, false, unix.EINVAL
	default:
		return to, false, unix.EPERM
	}
}

// OwnOr reports what Own does, or another, which may be nil.
func OwnOr(other func(netip.AddrPort) bool) func(netip.AddrPort) bool {
	return func(to netip.AddrPort) bool { return Own(to) || other != nil && other(to) }
}

// Own reports whether a connection to an address would be one to this process: something here listens at its port, and
// the address is one of this machine.
func Own(to netip.AddrPort) bool { return Local(to.Addr()) && listens(to.Port()) }

// Local reports whether packets to an address stay on this machine.
func Local(ip netip.Addr) bool {
	ip = ip.Unmap()
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	// What a socket can be bound to is what the kernel takes for its own, whatever interfaces and routes there are.
	var at unix.Sockaddr = &unix.SockaddrInet6{Addr: ip.As16()}
	family := unix.AF_INET6
	if ip.Is4() {
		at, family = &unix.SockaddrInet4{Addr: ip.As4()}, unix.AF_INET
	}
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		return true // which interface it is of is not told here, and neighbours are few
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Bind(fd, at) == nil
}

// listens reports whether a socket of this process listens at a port.
func listens(port uint16) bool {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return true
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return true
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
			continue
		}
		at, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		switch at := at.(type) {
		case *unix.SockaddrInet4:
			if at.Port == int(port) {
				return true
			}
		case *unix.SockaddrInet6:
			if at.Port == int(port) {
				return true
			}
		}
	}
	return false
}
