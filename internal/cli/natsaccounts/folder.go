package natsaccounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/jet/claims"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// What a folder of accounts has.
const (
	recordFile   = "station.json"
	operatorFile = "operator.jwt"
	configFile   = "resolver.conf"
	keysDir      = "keys"
	accountsDir  = "accounts"
	credsDir     = "creds"
	lockFile     = ".lock"
	maxFile      = 1 << 20
	lockWait     = 10 * time.Second
)

// ownOperator stands for the operator that the folder itself has.
const ownOperator = "own"

// record says what a folder was made for. It has no secret.
type record struct {
	Station string `json:"station"`
	State   string `json:"state_bucket"`
	Files   string `json:"files_bucket"`
	// Operator is the public key of who signs the accounts, or "own".
	Operator string   `json:"operator"`
	People   []person `json:"people,omitempty"`
	// Revoked are public keys of users that are no longer good, and since when.
	Revoked map[string]time.Time `json:"revoked,omitempty"`
}

// person is an outsider with a name of its own.
type person struct {
	Name string           `json:"name"`
	May  []topology.Right `json:"may"`
}

// folder is where keys, accounts and credentials of one station lie.
type folder struct {
	dir    string
	record record
	// fresh says that there was none.
	fresh bool
}

// open reads a folder, or begins one.
func open(dir string, want record) (*folder, error) {
	for _, d := range []string{keysDir, accountsDir, credsDir} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	f := &folder{dir: dir, record: want}
	b, err := disk.ReadAtMost(f.path(recordFile), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		f.fresh = true
		return f, nil
	}
	if err == nil {
		f.record = record{}
		err = json.Unmarshal(b, &f.record)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.path(recordFile), err)
	}
	is := f.record
	switch {
	case is.Station != want.Station:
		return nil, app.Usage("%s has the accounts of station %s, not of %s: give --station %s, or another --out", dir,
			is.Station, want.Station, is.Station)
	case is.State != want.State || is.Files != want.Files:
		return nil, app.Usage("%s was made for the buckets %s and %s: set %s and %s so, or give another --out", dir, is.State,
			is.Files, topology.StateVariable, topology.FilesVariable)
	case is.Operator != want.Operator && want.Operator == ownOperator:
		return nil, app.Usage("the accounts in %s are signed by operator %s: give the file of its key with --operator-seed",
			dir, is.Operator)
	case is.Operator != want.Operator:
		return nil, app.Usage("the accounts in %s are signed by operator %s, and --operator-seed is the key of %s: give another --out",
			dir, is.Operator, want.Operator)
	}
	return f, nil
}

func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// save writes the record. It comes before whatever depends on it: a key that is revoked in the record is made anew by
// the next call, also where this one is interrupted.
func (f *folder) save() error {
	b, err := json.MarshalIndent(f.record, "", "  ")
	if err != nil {
		return err
	}
	return disk.Replace(f.path(recordFile), append(b, '\n'), 0o600)
}

// seed returns the key of a name, and makes it the first time.
func (f *folder) seed(name string, kind claims.Kind) (secret.Value, error) {
	at := f.path(keysDir, name+".nk")
	b, err := disk.ReadAtMost(at, maxFile)
	if err == nil {
		return secret.New(strings.TrimSpace(string(b))), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return secret.Value{}, err
	}
	seed, err := claims.NewSeed(kind)
	if err != nil {
		return secret.Value{}, err
	}
	return seed, disk.Replace(at, []byte(seed.Reveal()+"\n"), 0o600)
}

// operatorToken is the one that servers have already, "" where there is none.
func (f *folder) operatorToken() string {
	b, err := disk.ReadAtMost(f.path(operatorFile), maxFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (f *folder) credsFile(user string) string { return f.path(credsDir, user+".creds") }

// credentials are those that a user has; nil for none, and for a file that cannot be read: it is made anew.
func (f *folder) credentials(user string) []byte {
	b, err := disk.ReadAtMost(f.credsFile(user), maxFile)
	if err != nil {
		return nil
	}
	return b
}

// revoke has the credentials that a user has now refused from now on.
func (f *folder) revoke(user string, now time.Time) {
	if key := claims.KeyOf(f.credentials(user)); key != "" {
		if f.record.Revoked == nil {
			f.record.Revoked = make(map[string]time.Time)
		}
		f.record.Revoked[key] = now.UTC().Truncate(time.Second)
	}
}

// add gives the station one more person, or other rights to one.
func (f *folder) add(p person) {
	if i := slices.IndexFunc(f.record.People, func(o person) bool { return o.Name == p.Name }); i >= 0 {
		f.record.People[i] = p
		return
	}
	f.record.People = append(f.record.People, p)
}

// remove takes a person away, whose credentials are refused from then on.
func (f *folder) remove(name string, now time.Time) error {
	i := slices.IndexFunc(f.record.People, func(o person) bool { return o.Name == name })
	if i < 0 {
		return app.Exit(app.ExitUnknown, fmt.Errorf("--remove %s: there is no such person in %s; inspan nats-accounts --out %s --json lists all",
			name, f.dir, f.dir))
	}
	f.revoke(name, now)
	f.record.People = slices.Delete(f.record.People, i, i+1)
	return nil
}

// write writes what was made, secrets before what names their public halves, and takes away credentials of those who
// are no longer users.
func (f *folder) write(made claims.Made) error {
	users := map[string]bool{}
	for _, u := range made.Users {
		users[u.Name+".creds"] = true
		if !u.Fresh {
			continue
		}
		if err := disk.Replace(f.credsFile(u.Name), []byte(u.Credentials.Reveal()), 0o600); err != nil {
			return err
		}
	}
	for _, a := range made.Accounts {
		if err := disk.Replace(f.path(accountsDir, a.Name+".jwt"), []byte(a.Token+"\n"), 0o644); err != nil {
			return err
		}
	}
	if made.Operator != "" {
		if err := disk.Replace(f.path(operatorFile), []byte(made.Operator+"\n"), 0o644); err != nil {
			return err
		}
		if err := disk.Replace(f.path(configFile), []byte(made.ServerConfig()), 0o644); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(f.path(credsDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".creds") && !users[e.Name()] {
			if err := os.Remove(f.path(credsDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserved are the names of users that every station has.
func reserved() []string {
	names := []string{topology.SetupUser, topology.UpgradeUser, "operator", "tools", events.Gateway, claims.SystemName}
	for _, role := range events.Services() {
		names = append(names, string(role))
	}
	return names
}

// parsePerson reads NAME=RIGHT,RIGHT.
func parsePerson(text string) (person, error) {
	name, rights, ok := strings.Cut(text, "=")
	if !ok || rights == "" {
		return person{}, app.Usage("--user %q: want NAME=RIGHTS, such as anna=watch,approve", text)
	}
	if err := events.CheckID("name of the user", name); err != nil {
		return person{}, app.Usage("--user %s: %w", text, err)
	}
	if slices.Contains(reserved(), name) {
		return person{}, app.Usage("--user %s: %s is a user that every station has: take another name", text, name)
	}
	p := person{Name: name}
	for r := range strings.SplitSeq(rights, ",") {
		if !slices.Contains(allRights(), topology.Right(r)) {
			return person{}, app.Usage("--user %s: there is no right %q; the rights are %v", text, r, allRights())
		}
		if !slices.Contains(p.May, topology.Right(r)) {
			p.May = append(p.May, topology.Right(r))
		}
	}
	return p, nil
}

// allRights are those that a person or a program may have.
func allRights() []topology.Right {
	return []topology.Right{topology.MayDispatch, topology.MayWatch, topology.MayApprove, topology.MayRecord,
		topology.MayHalt, topology.MayBudget, topology.MayBackup, topology.MayServe, topology.MayHook}
}

// outsiders are those that every station has and the people of this one, who answer gates in their own name.
func (f *folder) outsiders(b topology.Buckets) []topology.User {
	all := b.ShippedOutsiders(f.record.Station)
	for _, p := range f.record.People {
		all = append(all, b.Outsider(f.record.Station, p.Name, p.Name, p.May...))
	}
	return all
}

// revokedKeys is what claims take.
func (f *folder) revokedKeys() map[string]time.Time { return maps.Clone(f.record.Revoked) }
