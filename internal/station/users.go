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

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/topology"
)

// local is the user of whoever reaches the port of a station in this process, and of the station's own Conn: it may
// dispatch, watch and answer gates in no one's name, as an operator may, and nothing that a service may.
const local = "local"

// hookUser answers hooks. Guests may not, they would permit in a hook's place. Its password is the one that the person who
// runs the station gave, and where none was given there is no such user.
const hookUser = "hook"

// toolsUser serves tools to the station, and is there in the same way.
const toolsUser = "tools"

// accounts are those of the station's server, with the administrators given. Passwords are made at the first call and
// stay in the memory of this process.
func (s *Station) accounts(administrators ...topology.User) string {
	writer, _ := topology.Writer(s.cfg.Station)
	outsiders := []topology.User{writer,
		s.buckets().Outsider(s.cfg.Station, local, "", topology.MayDispatch, topology.MayWatch, topology.MayApprove)}
	if !s.cfg.Base.HookPassword.Empty() {
		s.passwords[hookUser] = s.cfg.Base.HookPassword
		outsiders = append(outsiders, s.buckets().Outsider(s.cfg.Station, hookUser, "", topology.MayHook))
	}
	if !s.cfg.Base.ToolsPassword.Empty() {
		s.passwords[toolsUser] = s.cfg.Base.ToolsPassword
		outsiders = append(outsiders, s.buckets().Outsider(s.cfg.Station, toolsUser, "", topology.MayServe))
	}
	return s.buckets().Accounts(s.cfg.Station, outsiders, func(user string) string {
		if s.passwords[user].Empty() {
			s.passwords[user] = secret.New(rand.Text())
		}
		return strconv.Quote(s.passwords[user].Reveal())
	}, administrators...)
}

// Administer has do act as the user who may change the streams of the station and write agents. The server knows this user
// only until do returns: a credential that can erase the log does not live beside the roles. Messages that are on their
// way to the roles meanwhile may be a few seconds late.
func (s *Station) Administer(ctx context.Context, do func(*jet.Conn) error) (err error) {
	s.administering.Lock()
	defer s.administering.Unlock()
	if err := s.server.SetAccounts(s.accounts(s.buckets().Upgrade(s.cfg.Station))); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.dismiss()) }()
	conn, err := s.as(ctx, topology.UpgradeUser, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(conn)
}

// dismiss takes the administrators away from the server.
func (s *Station) dismiss() error {
	for _, user := range []string{topology.SetupUser, topology.UpgradeUser, topology.ReviverUser} {
		delete(s.passwords, user)
	}
	return s.server.SetAccounts(s.accounts())
}

// earlierUsers is a file in which earlier programs kept the passwords of a station that ran.
const earlierUsers = "users.env"

// forgetUsers removes the passwords that a program left behind when it was killed.
func (s *Station) forgetUsers() error {
	if err := os.Remove(filepath.Join(s.cfg.StoreDir, earlierUsers)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the passwords of an earlier station: %w", err)
	}
	return nil
}
