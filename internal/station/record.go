package station

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/natsserver"
)

// RecordFile is where a station that listens says in its store how it is reached, for other programs of the same
// person. It is removed when the station ends; one of a station that was killed is left and believed by no one
// (Record.Alive).
const RecordFile = "station.json"

// ErrPortInUse means that another process listens where a station is to listen.
var ErrPortInUse = natsserver.ErrPortInUse

// Record says how a station is reached.
type Record struct {
	Station string `json:"station"`
	URL     string `json:"url"`
	PID     int    `json:"pid"`
	// Server is the name of its NATS server, which no other process has.
	Server string `json:"server"`
	// Workspace is the root of its workspaces; empty where an earlier program wrote the record.
	Workspace string `json:"workspace,omitempty"`
	// Users is the digest of the list of users that it has taken up; empty where it lets in whoever reaches it.
	Users string `json:"users,omitempty"`
	// Store is the folder that the record was found in.
	Store string `json:"-"`
}

const (
	// serverPrefix begins the names of the servers of stations in one process.
	serverPrefix = "inspan-"
	// maxRecord and maxGreeting are the most bytes of a record and of what a server says first; greetWait is how long
	// it may take.
	maxRecord   = 4 << 10
	maxGreeting = 64 << 10
	greetWait   = time.Second
)

// record writes it, in one move.
func (s *Station) record() error {
	if s.cfg.Listen == "" || s.cfg.Still {
		return nil // no one reaches it
	}
	b, err := json.Marshal(Record{Station: s.cfg.Station, URL: s.URL(), PID: os.Getpid(), Server: s.name,
		Workspace: s.cfg.WorkspaceDir, Users: s.users.digest()})
	if err != nil {
		return fmt.Errorf("record of the station: %w", err)
	}
	if err := disk.Replace(filepath.Join(s.cfg.StoreDir, RecordFile), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("record of the station: %w", err)
	}
	return nil
}

// Find looks for a living station in a store, and in the stores of that name in the folders above where it is a
// relative path.
func Find(ctx context.Context, dir, store string) (Record, bool) {
	if filepath.IsAbs(store) {
		return alive(ctx, store)
	}
	for {
		if r, ok := alive(ctx, filepath.Join(dir, store)); ok {
			return r, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return Record{}, false
		}
		dir = up
	}
}

// alive reads the record of a store and asks its station. What a person did not write is not believed, nor what leads
// to another machine: the folder may be a part of what somebody else made.
func alive(ctx context.Context, store string) (Record, bool) {
	path := filepath.Join(store, RecordFile)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord || !own(info) {
		return Record{}, false
	}
	b, err := os.ReadFile(path)
	r := Record{Store: store}
	if err != nil || json.Unmarshal(b, &r) != nil || r.PID <= 0 || !ownProcess(r.PID) {
		return Record{}, false
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.User != nil || !here(u.Hostname()) {
		return Record{}, false
	}
	name, err := Listening(ctx, u.Host)
	return r, err == nil && r.Server != "" && name == r.Server
}

// here reports whether an address is one of this machine.
func here(host string) bool {
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil || ip == nil {
		return false
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// errNotNATS means that what listens at an address is no NATS server.
var errNotNATS = errors.New("no NATS server")

// Listening asks what listens at an address and returns the name of the NATS server there.
func Listening(ctx context.Context, address string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // it was only to see who is there
	deadline, _ := ctx.Deadline()
	if err := conn.SetReadDeadline(deadline); err != nil {
		return "", err
	}
	line, err := bufio.NewReaderSize(conn, maxGreeting).ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", address, errNotNATS, err)
	}
	text, ok := bytes.CutPrefix(line, []byte("INFO "))
	var info struct {
		Name string `json:"server_name"`
	}
	if !ok || json.Unmarshal(text, &info) != nil {
		return "", fmt.Errorf("%s: %w", address, errNotNATS)
	}
	return info.Name, nil
}

// StationOf is the station of a server with that name, empty for a server that is none of a station in one process.
func StationOf(server string) string {
	rest, ok := strings.CutPrefix(server, serverPrefix)
	name, _, dot := strings.Cut(rest, ".")
	if !ok || !dot {
		return ""
	}
	return name
}

// Stopped reports whether a folder is the store of a station over NATS.
func Stopped(store string) bool {
	info, err := os.Stat(filepath.Join(store, "nats", "jetstream"))
	return !errors.Is(err, fs.ErrNotExist) && err == nil && info.IsDir()
}
