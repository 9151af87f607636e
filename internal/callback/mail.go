package callback

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"strings"
	"time"
)

// mail sends a message. A server that offers less than the file asks for is sent nothing.
func (t Target) mail(ctx context.Context, d Delivery) (err error) {
	f := t.File
	host, _, err := net.SplitHostPort(f.Server)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	raw, err := t.dialer().DialContext(ctx, "tcp", f.Server)
	if err != nil {
		return fmt.Errorf("connect to the mail server: %w", err)
	}
	defer func() { _ = raw.Close() }() // it is closed by the client where all went well
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return fmt.Errorf("connect to the mail server: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now()) })
	defer stop()
	secured := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	conn := net.Conn(bounded{raw, io.LimitReader(raw, maxAnswer)})
	if f.TLS == "tls" {
		conn = tls.Client(raw, secured)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return fmt.Errorf("mail server: %w", err)
	}
	if f.TLS == "starttls" {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return errors.New("the mail server offers no STARTTLS: nothing was sent")
		}
		if err := c.StartTLS(secured); err != nil {
			return fmt.Errorf("mail server, STARTTLS: %w", err)
		}
	}
	if f.User != "" {
		if err := c.Auth(smtp.PlainAuth("", f.User, t.password.Reveal(), host)); err != nil {
			return errors.New("the mail server does not take user and password")
		}
	}
	if err := c.Mail(f.From); err != nil {
		return fmt.Errorf("mail server, sender: %w", err)
	}
	for _, to := range f.To {
		if err := c.Rcpt(to); err != nil {
			return fmt.Errorf("mail server, receiver: %w", err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return fmt.Errorf("mail server: %w", err)
	}
	if _, err = w.Write(t.message(d)); err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("mail server, message: %w", err)
	}
	_ = c.Quit() // the message is taken
	return nil
}

// bounded is a connection of which no more than so much is read.
type bounded struct {
	net.Conn
	from io.Reader
}

// Read implements net.Conn.
func (b bounded) Read(p []byte) (int, error) { return b.from.Read(p) }

// message is the mail of a notice. Its Message-ID is the same for each attempt.
func (t Target) message(d Delivery) []byte {
	var out bytes.Buffer
	n := d.Notice
	line := func(name, value string) {
		fmt.Fprintf(&out, "%s: %s\r\n", name, strings.NewReplacer("\r", " ", "\n", " ").Replace(value))
	}
	_, domain, _ := strings.Cut(t.File.From, "@")
	line("From", t.File.From)
	line("To", strings.Join(t.File.To, ", "))
	line("Subject", mime.QEncoding.Encode("utf-8", "[inspan "+n.Station+"] "+n.Text))
	line("Date", n.Time.UTC().Format("Mon, 02 Jan 2006 15:04:05 +0000"))
	line("Message-ID", "<"+d.ID+"@"+domain+">")
	line("Auto-Submitted", "auto-generated")
	line("MIME-Version", "1.0")
	line("Content-Type", "text/plain; charset=utf-8")
	line("Content-Transfer-Encoding", "quoted-printable")
	out.WriteString("\r\n")
	w := quotedprintable.NewWriter(&out)
	fmt.Fprintf(w, "%s\r\n\r\nrun     %s\r\nstation %s\r\nagent   %s\r\n", n.Text, n.Run, n.Station, n.Agent)
	if n.Gate != "" {
		fmt.Fprintf(w, "gate    %s\r\n", n.Gate)
	}
	if away := n.Away(); away != "" {
		fmt.Fprintf(w, "deputy  %s\r\n", away)
	}
	fmt.Fprintf(w, "\r\n%s\r\n", n.Command)
	_ = w.Close() // it writes to memory
	return out.Bytes()
}
