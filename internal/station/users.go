package station

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/natsserver"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/station/userlist"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// local is the user of the station's own Conn, and guest that of whoever reaches the port of a station without a list
// of users: they may dispatch, watch and answer gates in no one's name, as an operator may, and nothing that a service
// may.
const (
	local = "local"
	guest = "guest"
)

// hookUser answers hooks. Guests may not, they would permit in a hook's place. Its password is the one that the person
// who runs the station gave, and where none was given there is no such user.
const hookUser = "hook"

// toolsUser serves tools to the station, and is there in the same way.
const toolsUser = "tools"

// users are the users of the server of a station, and connects as them.
type users struct {
	cfg    Config
	server *natsserver.Server
	// administering is held while the server has an administrator, and while list changes.
	administering sync.Mutex
	passwords     map[string]secret.Value
	// list has who may come in over the port. Where the server began with one it stays, whatever becomes of the file.
	list userlist.List
	// people has the server ask about who comes with a token of the provider; nil where no one may.
	people *people
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
	outsiders := []topology.User{u.outsider(local, "", userlist.Rights...)}
	if u.guest() != "" {
		outsiders = append(outsiders, u.outsider(guest, "", userlist.Rights...))
	}
	outsiders = append(outsiders, u.outsider(events.Gateway, events.Gateway,
		topology.MayDispatch, topology.MayWatch, topology.MayApprove))
	if u.cfg.Console {
		outsiders = append(outsiders, u.cfg.buckets().Consoles(u.cfg.Station)...)
	}
	for _, p := range u.list.Users {
		user := u.outsider(p.Name, p.Name, p.May...)
		user.Key = p.Key
		outsiders = append(outsiders, user)
	}
	if !u.cfg.Base.HookPassword.Empty() {
		u.passwords[hookUser] = u.cfg.Base.HookPassword
		outsiders = append(outsiders, u.cfg.buckets().Outsider(u.cfg.Station, hookUser, "", topology.MayHook))
	}
	if !u.cfg.Base.ToolsPassword.Empty() {
		u.passwords[toolsUser] = u.cfg.Base.ToolsPassword
		outsiders = append(outsiders, u.cfg.buckets().Outsider(u.cfg.Station, toolsUser, "", topology.MayServe))
	}
	password := func(user string) string {
		if u.passwords[user].Empty() {
			u.passwords[user] = secret.New(rand.Text())
		}
		return strconv.Quote(u.passwords[user].Reveal())
	}
	if administrators = append(administrators, writer); u.people != nil {
		return u.cfg.buckets().CalloutAccounts(u.cfg.Station, u.people.key.Public(), outsiders, password, administrators...)
	}
	return u.cfg.buckets().Accounts(u.cfg.Station, outsiders, password, administrators...)
}

// outsider is a user for people and programs. Where messages of this server start runs, whoever may dispatch a run may
// publish them, and the gateway receives them.
func (u *users) outsider(name, approver string, rights ...topology.Right) topology.User {
	user := u.cfg.buckets().Outsider(u.cfg.Station, name, approver, rights...)
	subjects := u.cfg.Base.MessagesSubjects
	if u.cfg.Base.MessagesURL != "" {
		subjects = nil
	}
	if slices.Contains(rights, topology.MayDispatch) {
		user.Publish = append(user.Publish, subjects...)
	}
	if name == events.Gateway {
		user.Subscribe = append(user.Subscribe, subjects...)
	}
	return user
}

// guest is who comes in without credentials; "" where no one does.
func (u *users) guest() string {
	if u.list.Closed {
		return ""
	}
	return guest
}

// set has the server let in who is in a list. Who is not in it any more is disconnected.
func (u *users) set(list userlist.List) error {
	u.administering.Lock()
	defer u.administering.Unlock()
	before := u.list
	if u.list = list; list.Digest() == before.Digest() {
		return nil
	}
	err := u.server.SetAccounts(u.accounts(), u.guest())
	if err != nil {
		u.list = before
	}
	return err
}

// digest identifies the list that the server has.
func (u *users) digest() string {
	u.administering.Lock()
	defer u.administering.Unlock()
	return u.list.Digest()
}

// followEvery is how often the list of users is looked at.
const followEvery = time.Second

// follow takes up what changes in the list of users, until ctx ends, and calls back after each change. A list that
// cannot be read, or is gone, changes nothing: the server stays as closed as it is.
func (u *users) follow(ctx context.Context, changed func() error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := u.takeUp(changed)
		if err == nil {
			said = ""
		} else if said != err.Error() {
			said = err.Error()
			u.cfg.Log.Error().Err(err).Msg("users not changed, will try again")
		}
	}
}

// takeUp has the server let in who is in the list of users now.
func (u *users) takeUp(changed func() error) error {
	list, err := userlist.Read(u.cfg.StoreDir)
	if err != nil {
		return err
	}
	switch now := u.digest(); {
	case list.Digest() == now:
		return nil
	case !list.Closed:
		return errors.New("the list of users is gone: no one else is let in until the station is started again")
	}
	if err := u.set(list); err != nil {
		return err
	}
	u.cfg.Log.Info().Int("users", len(list.Users)).Msg("list of users taken up")
	return changed()
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
	if err := u.server.SetAccounts(u.accounts(as), u.guest()); err != nil {
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
	return u.server.SetAccounts(u.accounts(), u.guest())
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
