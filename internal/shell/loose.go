package shell

import (
	"path"
	"slices"
	"strings"
)

// plain programs run nothing of what they are given: their words are data. Those of sed, awk and git are read
// elsewhere.
var plain = strings.Fields(`: [ ack ag alias apropos awk base32 base64 basename bat bc bunzip2 bzip2 cal cat cd chgrp chmod chown cksum clear cmp
column comm command cut date declare df diff diff3 dig dircolors dirname dirs du echo egrep eza exa export expand expr factor false fgrep file fmt fold
free gawk getent gh git glab grep groups gsed gunzip gzip hash head help hexdump history host hostname hub iconv id ifconfig ip jobs join jq
kill killall last let ldd link ln local locate logger ls lsblk lsof mapfile mawk md5sum mkdir mkfifo mktemp mount mv nawk nl nm nproc nslookup objdump od
paste patch pathchk ping pgrep pkill popd pr printenv printf ps pushd pwd read readarray readelf readlink readonly realpath return rev rg rm rmdir sed
seq set sha1sum sha256sum sha512sum shift shopt shuf sleep sort ss stat strings stty sum sync tac tail tee test touch tput tr tree true truncate tsort tty type
typeset umask unalias uname unexpand uniq unlink unset unxz unzip uptime users vmstat wait wc wget whatis whereis which who whoami xxd xz yes yq zcat zstd exit
curl cp install rsync man time`)

// readers are programs whose words the reader follows to the commands in them.
var readers = strings.Fields(`find fd fdfind xargs eval watch trap su ssh parallel`)

// installers take names of packages, with the words that make them do so.
var (
	installers = strings.Fields("apt apt-get apk dnf yum zypper pacman brew npm pnpm yarn pip pip3 pipx uv cargo go gem composer conda mamba micromamba snap flatpak python python3 choco winget bun poetry")
	installing = strings.Fields("install i add get remove rm uninstall purge search show info upgrade update view download -S")
)

// loosely notes the words of a command that may run what it is given.
func (r *reader) loosely(name string, argv []string, in input, s scope) {
	wrapper, wraps := wrapperOf(name)
	switch {
	case (name == "gh" || name == "glab") && len(argv) > 1 && slices.Contains([]string{"alias", "extension", "extensions",
		"ext", "codespace", "cs", "config"}, argv[1]):
		r.loose(strings.Join(argv[2:], " "))
	case name == "wget":
		r.loose(strings.Join(append(values(argv, "--use-askpass", "--execute"), values(argv, "-e")...), " "))
	case slices.Contains(plain, name), slices.Contains(readers, name), r.values.functions[name]:
		return
	case isShell(name) && slices.ContainsFunc(argv[1:], func(w string) bool {
		return len(w) > 1 && w[0] == '-' &&
			w[1] != '-' && strings.Contains(w, "c")
	}):
		return
	case wraps:
		r.loose(strings.Join(argv[1:wrapper.end(argv)], " "))
	case slices.Contains(installers, name) && slices.ContainsFunc(argv[1:min(len(argv), 4)],
		func(w string) bool { return slices.Contains(installing, w) }):
		argv = slices.DeleteFunc(slices.Clone(argv[1:]), func(w string) bool { return !strings.ContainsAny(w, "= ") })
		r.loose(strings.Join(argv, " "))
	default:
		r.loose(strings.Join(argv[1:], " "))
		r.passes = r.passes || slices.ContainsFunc(argv[1:], func(w string) bool { return !known(w) })
		for i := 1; i+1 < len(argv); i++ {
			if isShell(path.Base(argv[i])) && len(argv[i+1]) > 1 && argv[i+1][0] == '-' && strings.HasSuffix(argv[i+1], "c") {
				r.command(argv[i:], in, s.deeper())
				break
			}
		}
	}
	if in.given && !isShell(name) {
		r.loose(in.text)
	}
}

// maxLoose is the most loose words of a text.
const maxLoose = 1 << 15

// loose takes a text apart into words in which no command is sure to stand, a list for each line or other end of a
// command.
func (r *reader) loose(text string) {
	var list []string
	end := func() {
		if len(list) > 0 {
			r.looseWords = append(r.looseWords, list)
			list = nil
		}
	}
	from := -1
	for i := 0; i <= len(text); i++ {
		if i < len(text) && looseSign(text[i]) {
			if from < 0 {
				from = i
			}
			continue
		}
		if from >= 0 {
			if r.looseCount++; r.looseCount > maxLoose {
				r.doubt("it has more than %d words that a program may run", maxLoose)
				return
			}
			list, from = append(list, text[from:i]), -1
		}
		if i == len(text) || strings.IndexByte("\n;|&`", text[i]) >= 0 {
			end()
		}
	}
}

// looseSign reports whether a sign belongs to a word.
func looseSign(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == 0 || c >= 0x80 ||
		strings.IndexByte("._/+~@*-", c) >= 0
}
