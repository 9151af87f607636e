package station

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// local is the user of whoever reaches the port of a station in this process, and of the station's own Conn: it may
// dispatch, watch and answer gates in no one's name, as an operator may, and nothing that a service may.
const local = "local"

// hookUser answers hooks. Guests may not, they would permit in a hook's place. Its password is the one that the person
// who runs the station gave, and where none was given there is no such user.
const hookUser = "hook"

// toolsUser serves tools to the station, and is there in the same way.
const toolsUser = "tools"

// users are the users of the server of a station, and connects as them.
type users struct {
	cfg    Config
	server *natsserver.Server
	// administering is held while the server has an administrator.
	administering sync.Mutex
	passwords     map[string]secret.Value
}

// connect connects to the server as one of its users.
func (u *users) connect(ctx context.Context, user, inboxPrefix string) (*jet.Conn, error) {
	var server jet.Embedded = u.server
	if u.cfg.tap != nil {
		server = u.cfg.tap(user, u.server)
	}
	return jet.Connect(ctx, jet.Config{InProcess: server, Name: "inspan-" + user, User: user,
		Password:    u.passwords[user],
		InboxPrefix: inboxPrefix, DrainGrace: u.cfg.Base.Drain, Buckets: u.cfg.buckets(), Log: u.cfg.Log})
}

// accounts are those of the station's server, with the administrators given. Passwords are made at the first call and
// stay in the memory of this process.
func (u *users) accounts(administrators ...topology.User) string {
	writer, _ := topology.Writer(u.cfg.Station)
	outsiders := []topology.User{
		u.cfg.buckets().Outsider(u.cfg.Station, local, "", topology.MayDispatch, topology.MayWatch, topology.MayApprove, topology.MayRecord)}
	if !u.cfg.Base.HookPassword.Empty() {
		u.passwords[hookUser] = u.cfg.Base.HookPassword
		outsiders = append(outsiders, u.cfg.buckets().Outsider(u.cfg.Station, hookUser, "", topology.MayHook))
	}
	if !u.cfg.Base.ToolsPassword.Empty() {
		u.passwords[toolsUser] = u.cfg.Base.ToolsPassword
		outsiders = append(outsiders, u.cfg.buckets().Outsider(u.cfg.Station, toolsUser, "", topology.MayServe))
	}
	return u.cfg.buckets().Accounts(u.cfg.Station, outsiders, func(user string) string {
		if u.passwords[user].Empty() {
			u.passwords[user] = secret.New(rand.Text())
		}
		return strconv.Quote(u.passwords[user].Reveal())
	}, append(administrators, writer)...)
}

// Administer has do act as the user who may change the streams of the station and write agents. The server knows this
// user only until do returns: a credential that can erase the log does not live beside the roles. Messages that are on
// their way to the roles meanwhile may be a few seconds late.
func (s *Station) Administer(ctx context.Context, do func(*jet.Conn) error) (err error) {
	return s.users.administer(ctx, s.cfg.buckets().Upgrade(s.cfg.Station), do)
}

// administer has do act as an administrator, whom the server knows only until do returns.
func (u *users) administer(ctx context.Context, as topology.User, do func(*jet.Conn) error) (err error) {
	u.administering.Lock()
	defer u.administering.Unlock()
	if err := u.server.SetAccounts(u.accounts(as)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.dismiss()) }()
	conn, err := u.connect(ctx, as.Name, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(conn)
}

// dismiss takes the administrators away from the server.
func (u *users) dismiss() error {
	for _, user := range []string{topology.SetupUser, topology.UpgradeUser, topology.ReviverUser} {
		delete(u.passwords, user)
	}
	return u.server.SetAccounts(u.accounts())
}

// earlierUsers is a file in which earlier programs kept the passwords of a station that ran.
const earlierUsers = "users.env"

// forgetUsers removes the passwords that a program left behind when it was killed.
func forgetUsers(store string) error {
	if err := os.Remove(filepath.Join(store, earlierUsers)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the passwords of an earlier station: %w", err)
	}
	return nil
}
