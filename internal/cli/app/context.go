package app

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/disk"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Context is how a station is reached, under a name. Its file has paths of secrets and no secrets.
type Context struct {
	Name    string `json:"-"`
	Server  string `json:"server"`
	Station string `json:"station,omitempty"`
	// Creds is the path of a credentials file, NKey that of a seed file.
	Creds string `json:"creds,omitempty"`
	NKey  string `json:"nkey,omitempty"`
	// Approver is in whose name gates are answered and runs are steered.
	Approver string `json:"approver,omitempty"`
	// CA are the certificates that the server's is verified with, Cert and Key this program's own; all are paths.
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	// login is what a context of the nats program has in its file; it goes into the address, which is shown without it.
	login *url.Userinfo
}

const (
	// contextVariable names the context that is used.
	contextVariable = "INSPAN_NATS_CONTEXT"
	// NatsContext is what the names of contexts of the nats program begin with.
	NatsContext = "nats:"
	// currentFile holds the name of the context that is used where nothing else is said.
	currentFile = "current"
	// maxContext bounds the file of a context, in bytes.
	maxContext = 64 << 10
)

// errNoHome means that there is no folder for what belongs to a person.
var errNoHome = errors.New("there is no home folder to keep contexts in: HOME or XDG_CONFIG_HOME names one")

// contextDir is the folder of the contexts, "" without a home: what lies in the working directory is somebody else's.
func contextDir() string {
	at := service.SystemFile()
	if at == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(at), "contexts")
}

// natsDir is the folder of the contexts of the nats program, "" without a home.
func natsDir() string {
	own := contextDir()
	if own == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(filepath.Dir(own)), "nats", "context")
}

func contextFile(name string) string { return filepath.Join(contextDir(), name+".json") }

// Contexts are the names of all contexts, those of the nats program last.
func Contexts() []string {
	var out []string
	for _, from := range []struct{ dir, prefix string }{{contextDir(), ""}, {natsDir(), NatsContext}} {
		entries, err := os.ReadDir(from.dir)
		if err != nil || from.dir == "" {
			continue // there are none
		}
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && e.Type().IsRegular() && events.ValidID(name) {
				out = append(out, from.prefix+name)
			}
		}
	}
	return out
}

// CurrentContext is the name that was chosen with inspan context use, "" for none.
func CurrentContext() string {
	dir := contextDir()
	b, err := os.ReadFile(filepath.Join(dir, currentFile))
	if err != nil || dir == "" {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// SetCurrentContext chooses a context; "" chooses none.
func SetCurrentContext(name string) error {
	dir := contextDir()
	if dir == "" {
		return errNoHome
	}
	at := filepath.Join(dir, currentFile)
	if name == "" {
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return disk.Replace(at, []byte(name+"\n"), 0o600)
}

// SaveContext writes the file of a context.
func SaveContext(c Context) error {
	if contextDir() == "" {
		return errNoHome
	}
	if err := os.MkdirAll(contextDir(), 0o700); err != nil {
		return err
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return disk.Replace(contextFile(c.Name), append(b, '\n'), 0o600)
}

// RemoveContext removes one, and chooses none where it was chosen.
func RemoveContext(name string) error {
	if strings.HasPrefix(name, NatsContext) {
		return Usage("context %s is of the nats program: nats context rm %s removes it", name,
			strings.TrimPrefix(name, NatsContext))
	}
	if _, err := LoadContext(name); err != nil {
		return err
	}
	if err := os.Remove(contextFile(name)); err != nil {
		return err
	}
	if CurrentContext() == name {
		return SetCurrentContext("")
	}
	return nil
}

// LoadContext reads one.
func LoadContext(name string) (Context, error) {
	own, foreign := strings.CutPrefix(name, NatsContext)
	at := contextFile(name)
	if foreign {
		at = filepath.Join(natsDir(), own+".json")
	}
	if !events.ValidID(own) {
		return Context{}, Usage("%q is no name of a context: use A-Z a-z 0-9 _ and -", name)
	}
	if contextDir() == "" {
		return Context{}, Usage("context %s: %w", name, errNoHome)
	}
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, fmt.Errorf("context %q: %w; %s", name, client.ErrNotFound,
			didyoumean.Hint(name, Contexts(), "inspan context list lists them"))
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxContext) {
		err = errors.New("it is no file of a context")
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(at)
	}
	c := Context{Name: name}
	if err == nil && foreign {
		err = c.readNats(b)
	} else if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, Usage("context %s: %s: %w", name, at, err)
	}
	return c, nil
}

// readNats reads a file of the nats program.
func (c *Context) readNats(b []byte) error {
	var f struct {
		URL, Creds, NKey, User, Password, Token, Cert, Key, CA string
		NSC                                                    string
		JWT                                                    string `json:"user_jwt"`
		Domain                                                 string `json:"jetstream_domain"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return errors.New("the file is not JSON, as the nats program writes it") // what is in it may be secret
	}
	for what, value := range map[string]string{"nsc": f.NSC, "user_jwt": f.JWT, "jetstream_domain": f.Domain} {
		if value != "" {
			return fmt.Errorf("inspan does not know %s: make a context with a credentials file (inspan context add)", what)
		}
	}
	c.Server, c.Creds, c.NKey = f.URL, home(f.Creds), home(f.NKey)
	c.Cert, c.Key, c.CA = home(f.Cert), home(f.Key), home(f.CA)
	switch {
	case f.User != "":
		c.login = url.UserPassword(f.User, f.Password)
	case f.Token != "":
		c.login = url.User(f.Token)
	}
	return nil
}

// home is a path whose ~ stands for the home folder.
func home(path string) string {
	rest, ok := strings.CutPrefix(path, "~/")
	dir, err := os.UserHomeDir()
	if !ok || err != nil {
		return path
	}
	return filepath.Join(dir, rest)
}

// address is the server's with the login of the context.
func (c Context) address() string {
	if c.login == nil {
		return c.Server
	}
	var out []string
	for one := range strings.SplitSeq(c.Server, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		if u, err := url.Parse(one); err == nil && u.User == nil {
			u.User = c.login
			one = u.String()
		}
		out = append(out, one)
	}
	return strings.Join(out, ",")
}

// UseLogin adds the user and the password of INSPAN_NATS_USER to the address. What a context, a credentials file or the
// address itself says stands above it.
func UseLogin(a *App) error {
	cfg, err := a.Config()
	if err != nil || cfg.NATSUser == "" || a.Context.Name != "" || a.Creds != "" || a.Local {
		return err
	}
	a.Server = Context{Server: a.Server, login: url.UserPassword(cfg.NATSUser, cfg.NATSPassword.Reveal())}.address()
	return nil
}

// TLS is the configuration for the certificates of the context, nil where it names none.
func (c Context) TLS() (*tls.Config, error) {
	if c.CA == "" && c.Cert == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, Usage("context %s: %w", c.Name, err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, Usage("context %s: %s has no certificate", c.Name, c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, Usage("context %s: certificate and key: %w", c.Name, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// ContextName is the context that is meant, and what names it: a flag, a variable, the route of the project, or that it
// was chosen.
func (a *App) ContextName() (name, from string) {
	if a.Given("context") {
		return a.ContextFlag, "--context"
	}
	if name := os.Getenv(contextVariable); name != "" {
		return name, contextVariable
	}
	if a.Routed.Project != "" {
		return a.Routed.Context, a.Routed.Layer()
	}
	if name := CurrentContext(); name != "" {
		return name, "inspan context use"
	}
	return "", ""
}

// UseContext takes the address, the credentials and the station of the context that is meant. A flag, and where the
// context is not named by a flag itself a variable, stands above it; its credentials go to its own server alone.
func (a *App) UseContext() error {
	if err := FindRoute(a); err != nil {
		return err
	}
	name, from := a.ContextName()
	if name == "" || a.Context.Name != "" {
		return nil
	}
	flagged := from == "--context"
	if a.Local {
		if flagged {
			return Usage("--local does without NATS, so --context means nothing: leave one of them out")
		}
		return nil
	}
	says := func(flag, variable string) bool { return a.Given(flag) || !flagged && a.inEnvironment(variable) }
	if says("server", "INSPAN_NATS_URL") {
		if flagged {
			return Usage("--server and --context both name a server: leave one of them out")
		}
		return nil
	}
	c, err := LoadContext(name)
	if err != nil {
		return fmt.Errorf("%w (%s names it)", err, from)
	}
	if c.Server == "" {
		return Usage("context %s names no server (%s names it)", name, from)
	}
	if a.Routed.Project != "" {
		if err := a.Routed.check(c); err != nil {
			return err
		}
	}
	a.Context, a.Server = c, c.address()
	if c.Approver != "" && !a.inEnvironment("INSPAN_APPROVER") {
		a.approver = c.Approver
		if by := a.Cmd.Flags().Lookup("by"); by != nil && !by.Changed {
			if err := by.Value.Set(c.Approver); err != nil {
				return fmt.Errorf("context %s: approver: %w", name, err)
			}
		}
	}
	if !says("creds", "INSPAN_NATS_CREDS") {
		a.Creds = c.Creds
	} else {
		a.Context.NKey = ""
	}
	if c.Station != "" && !says("station", "INSPAN_STATION") {
		a.Station = c.Station
	}
	return nil
}

// inEnvironment reports whether a variable says something.
func (s *Settings) inEnvironment(variable string) bool {
	all := s.Layers.Explain()
	i := slices.IndexFunc(all, func(e service.Effective) bool { return e.Variable == variable })
	return i >= 0 && all[i].Origins[0].Layer == service.FromEnvironment && all[i].Origins[0].Value != ""
}

// UseNamed takes the address, the credentials and the station of a context, whatever the environment says.
func UseNamed(a *App, name string) error {
	c, err := LoadContext(name)
	if err == nil && c.Server == "" {
		err = Usage("context %s names no server", name)
	}
	if err != nil {
		return err
	}
	a.Context, a.Server, a.Creds, a.Station = c, c.address(), c.Creds, StationOf(c)
	return nil
}
