package git

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/inspan/inspan/internal/pattern"
)

// remote is an address that was found to be one.
type remote struct {
	g                 *runner
	url, scheme, host string
}

var (
	scp      = pattern.New(`^(?:([A-Za-z0-9_][A-Za-z0-9._-]{0,63})@)?([A-Za-z0-9][A-Za-z0-9.-]{0,252}):([^:/-].*|/.*)$`)
	hostname = pattern.New(`^(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9a-fA-F:.]{2,45}\])(?::[0-9]{1,5})?$`)
	sshUser  = pattern.New(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
)

// remote checks an address: https://, http://, ssh://, git://, file://, user@host:path or an absolute path, and only
// with an allowed protocol. An address with a password is refused.
func (g *Git) remote(address string) (*remote, error) {
	r, err := parseRemote(address)
	if err != nil {
		return nil, err
	}
	for _, p := range g.cfg.Protocols {
		if p == r.scheme {
			r.g = &g.runner
			return r, nil
		}
	}
	return nil, fmt.Errorf("git address with %q: %w (allowed: %s)", r.scheme, ErrProtocol,
		strings.Join(g.cfg.Protocols, ", "))
}

func parseRemote(address string) (*remote, error) {
	if err := plain(address); err != nil {
		return nil, err
	}
	if strings.HasPrefix(address, "/") {
		return &remote{url: "file://" + address, scheme: "file"}, nil
	}
	if !strings.Contains(address, "://") {
		m := scp.FindStringSubmatch(address)
		if m == nil {
			return nil, fmt.Errorf("git address %q: %w (want https://, ssh:// or user@host:path)", short(hideUser(address)),
				ErrName)
		}
		return &remote{url: address, scheme: "ssh", host: m[2]}, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("git address: %w (it is not a URL)", ErrName)
	}
	if _, set := u.User.Password(); set || u.User != nil && (u.Scheme != "ssh" ||
		!sshUser.MatchString(u.User.Username())) {
		return nil, fmt.Errorf("git address of host %q contains a user or a password: %w (remove it and store a credential for the host)", short(u.Host), ErrName)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" || strings.Contains(u.Path, "\x00") {
		return nil, fmt.Errorf("git address of host %q: %w (want no query and no fragment)", short(u.Host), ErrName)
	}
	if u.Scheme == "file" {
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return nil, fmt.Errorf("git address of a file: %w (want file:///path)", ErrName)
		}
	} else if !hostname.MatchString(u.Host) || strings.HasPrefix(u.Path, "/-") {
		return nil, fmt.Errorf("git address of host %q: %w (want scheme://host/path)", short(u.Host), ErrName)
	}
	return &remote{url: address, scheme: strings.ToLower(u.Scheme), host: u.Host}, nil
}

func hideUser(address string) string {
	if _, after, ok := strings.Cut(address, "@"); ok {
		return "***@" + after
	}
	return address
}

// credential asks for what to show to a remote and makes the ways by which git gets it.
func (p *workspaceDir) credential(ctx context.Context, g *runner, r *remote) error {
	p.env = append(p.env, "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND=false")
	if r.scheme == "file" || r.scheme == "git" {
		return nil
	}
	var c Credential
	if g.cfg.Credential != nil {
		var err error
		if c, err = g.cfg.Credential(ctx, r.scheme, r.host); err != nil {
			return fmt.Errorf("credential for %s: %w", r.host, err)
		}
	}
	if r.scheme == "ssh" {
		return p.ssh(c)
	}
	if c.Password.Empty() {
		return nil
	}
	if c.User == "" {
		c.User = "git" // a token goes without a user, but git wants one
	}
	pass := c.Password.Reveal()
	if strings.ContainsAny(pass+c.User, "\r\n\x00") {
		return fmt.Errorf("credential for %s: the user or the password has more than one line: %w", r.host, ErrName)
	}
	p.secrets = append(p.secrets, pass, url.QueryEscape(pass), url.PathEscape(pass),
		base64.StdEncoding.EncodeToString([]byte(c.User+":"+pass)))
	return p.askpass(r, c.User, pass)
}

// asker is the program that git asks. It holds no secret: it passes the question on and the answer back.
const asker = `#!/bin/sh
d=${0%/*}
printf '%s\n' "$1" >"$d/ask" && IFS= read -r a <"$d/tell" && printf '%s\n' "$a"
`

// askpass answers git's questions through two pipes with names. Only questions about this remote get an answer.
func (p *workspaceDir) askpass(r *remote, user, pass string) error {
	for _, name := range []string{"ask", "tell"} {
		if err := syscall.Mkfifo(p.at(name), 0o600); err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
	}
	if err := os.WriteFile(p.at("askpass"), []byte(asker), 0o700); err != nil {
		return err
	}
	ask, err := os.OpenFile(p.at("ask"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	tell, err := os.OpenFile(p.at("tell"), os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, ask.Close())
	}
	gone := make(chan struct{}) // closed when no one answers any more
	p.closers = append(p.closers, func() error {
		err := errors.Join(ask.Close(), tell.Close())
		<-gone
		return err
	})
	go func() {
		defer close(gone)
		questions := bufio.NewReader(ask)
		for {
			q, err := questions.ReadString('\n')
			if err != nil {
				return
			}
			if _, err := tell.WriteString(reply(strings.TrimSuffix(q, "\n"), r, user, pass) + "\n"); err != nil {
				return
			}
		}
	}()
	p.env = append(p.env, "GIT_ASKPASS="+p.at("askpass"))
	return nil
}

var question = pattern.New(`^(Username|Password) for '(https?)://(?:([^@'/]*)@)?([^'/]+)(?:/[^']*)?': ?$`)

// reply answers one of git's questions: nothing, unless it is about the remote that was asked for.
func reply(q string, r *remote, user, pass string) string {
	m := question.FindStringSubmatch(q)
	switch {
	case m == nil || m[2] != r.scheme || m[4] != r.host:
		return ""
	case m[1] == "Username":
		return user
	}
	return pass
}

var plainPath = pattern.New(`^[A-Za-z0-9/._+-]+$`)

// maxSocket is the longest path of a socket that all systems take.
const maxSocket = 100

// ssh starts an agent with the key, and names the command that knows the hosts and nothing else.
func (p *workspaceDir) ssh(c Credential) error {
	socket := p.at("agent")
	if !plainPath.MatchString(p.dir) || len(socket) > maxSocket {
		return fmt.Errorf("temporary directory %q cannot be used for ssh: want at most %d of the characters A-Z a-z 0-9 / . _ + -", p.dir, maxSocket)
	}
	if err := os.WriteFile(p.at("known_hosts"), []byte(strings.TrimSpace(c.KnownHosts)+"\n"), 0o600); err != nil {
		return err
	}
	identity := "none"
	if !c.Key.Empty() {
		p.secrets = append(p.secrets, c.Key.Reveal())
		if err := p.agent(socket, c.Key.Reveal()); err != nil {
			return err
		}
		identity = socket
	}
	command := "ssh -F /dev/null"
	for _, o := range []string{"BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=" + p.at("known_hosts"),
		"GlobalKnownHostsFile=/dev/null",
		"UpdateHostKeys=no", "VerifyHostKeyDNS=no", "IdentityFile=none", "IdentityAgent=" + identity,
		"PreferredAuthentications=publickey", "PermitLocalCommand=no",
		"ProxyCommand=none", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "ControlMaster=no",
		"ControlPath=none", "ConnectTimeout=30",
		"ServerAliveInterval=15", "CanonicalizeHostname=no", "LogLevel=ERROR"} {
		command += " -o " + o
	}
	if p.host != "" {
		command += " -o HostName='" + p.host + "' -o HostKeyAlias='" + p.alias + "'"
	}
	p.env = append(p.env, "GIT_SSH_COMMAND="+command)
	return nil
}

// agent serves one key on a socket until the place is closed. The key is in no file.
func (p *workspaceDir) agent(socket, key string) error {
	private, err := ssh.ParseRawPrivateKey([]byte(key + "\n"))
	if err != nil {
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) {
			return fmt.Errorf("ssh key has a passphrase: %w (store a key without passphrase that is used only here)", ErrAuth)
		}
		return fmt.Errorf("ssh key cannot be read: %w (want OpenSSH or PEM form)", ErrAuth) // the cause may quote it
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		return fmt.Errorf("ssh key has an unknown type: %w", ErrAuth)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listen for ssh: %w", err)
	}
	var talks sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{} // guarded by mu; nil after the end
	p.closers = append(p.closers, func() error {
		err := ln.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close() // its talk ends with an error that no one needs
		}
		open = nil
		mu.Unlock()
		talks.Wait()
		return err
	})
	talks.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if open == nil {
				mu.Unlock()
				_ = c.Close()
				return
			}
			open[c] = true
			mu.Unlock()
			talks.Go(func() {
				_ = agent.ServeAgent(ring, c) // ends with the connection
				_ = c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	return nil
}
