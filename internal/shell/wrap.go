package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
)

// options says how the words between a wrapper and the command it runs are read.
type options struct {
	// valued options take the next word.
	valued string
	// before counts the words of the wrapper's own that stand before the command.
	before int
	// assigns is set where NAME=value may stand before the command.
	assigns bool
}

// wrappers run the command that follows their own options.
var wrappers = map[string]options{
	"sudo": {valued: "-u -g -h -p -C -r -t -U -D -R -T --user --group --host --prompt --chdir --chroot --close-from",
		assigns: true},
	"doas": {valued: "-u -C"}, "env": {valued: "-u -C -S -a --unset --chdir --split-string --argv0", assigns: true},
	"nohup": {}, "nice": {valued: "-n --adjustment"}, "ionice": {valued: "-c -n -p --class --classdata"},
	"time": {valued: "-f -o --format --output"}, "gtime": {valued: "-f -o"},
	"timeout":  {valued: "-k -s --kill-after --signal", before: 1},
	"gtimeout": {valued: "-k -s", before: 1}, "command": {}, "builtin": {}, "exec": {valued: "-a"},
	"stdbuf": {valued: "-i -o -e --input --output --error"},
	"setsid": {}, "busybox": {}, "toybox": {}, "chroot": {before: 1}, "unbuffer": {},
	"nsenter": {valued: "-t --target -S -G --setuid --setgid"},
	"unshare": {valued: "-S -G -R -w --setuid --setgid --root --wd --map-user --map-group --map-users --map-groups --propagation --setgroups"},
	"strace":  {valued: "-o -e -p -s -E"}, "ltrace": {valued: "-o -e -p"}, "flock": {valued: "-w -E --timeout", before: 1},
	"taskset": {before: 1},
	"chrt":    {before: 1}, "setpriv": {}, "prlimit": {}, "gosu": {before: 1}, "su-exec": {before: 1},
	"runuser":  {valued: "-u -g -c --command"},
	"valgrind": {}, "catchsegv": {}, "systemd-run": {valued: "-p -u --unit --property"}, "noglob": {}, "nocorrect": {},
	"caffeinate": {valued: "-t -w"}, "dbus-run-session": {}, "xvfb-run": {valued: "-n -s -e"}, "firejail": {}, "bwrap": {},
	"fakeroot": {}, "proot": {},
	"entr": {}, "pkexec": {valued: "--user"}, "rlwrap": {}, "torsocks": {}, "proxychains": {}, "setarch": {},
	"linux32": {}, "linux64": {}, "i386": {},
	"i486": {}, "i586": {}, "i686": {}, "x86_64": {}, "uname26": {}, "armv7l": {}, "aarch64": {}, "faketime": {before: 1},
	"numactl": {valued: "-C -m -N -i -p -l"},
	"cgexec":  {valued: "-g"}, "tini": {valued: "-p -e"}, "dumb-init": {valued: "-r"}, "chronic": {},
	"ssh-agent": {valued: "-a -t -E"}, "dbus-launch": {},
	"systemd-inhibit": {}, "systemd-cat": {valued: "-t -p"}, "logsave": {before: 1}, "eatmydata": {},
	"run0": {valued: "-u"}, "cpulimit": {valued: "-l -p -e"},
	"choom": {valued: "-n -p"}, "watchexec": {valued: "-e -w -i"},
}

// loader options of the dynamic loader, which runs the program that it is given.
var loader = options{valued: "--library-path --preload --audit --argv0 --inhibit-rpath --inhibit-cache --glibc-hwcaps-prepend --glibc-hwcaps-mask"}

// wrapperOf returns how a wrapper is read.
func wrapperOf(name string) (options, bool) {
	if strings.HasPrefix(name, "ld") && strings.Contains(name, ".so") {
		return loader, true
	}
	o, ok := wrappers[name]
	return o, ok
}

// carriers run a command that stands somewhere among their words.
var carriers = []string{"docker", "podman", "nerdctl", "kubectl", "npx", "npm", "pnpm", "yarn", "bunx", "bun", "deno",
	"poetry", "uv", "uvx", "pipenv", "pipx", "bundle",
	"nix", "nix-shell", "mise", "asdf", "direnv", "conda", "mamba", "micromamba", "rbenv", "pyenv", "lxc", "vagrant",
	"make", "just", "cargo", "go", "gdb", "lldb", "perf", "ts-node", "tmux", "screen", "hyperfine"}

// end returns where the command begins.
func (o options) end(argv []string) int {
	valued, before := strings.Fields(o.valued), o.before
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		switch {
		case w == "--":
			for i++; o.assigns && i < len(argv) && assigns(argv[i]); i++ {
			}
			return min(i+before, len(argv))
		case slices.Contains(valued, w):
			i++
		case strings.HasPrefix(w, "-"):
		case o.assigns && assigns(w):
		case before > 0:
			before--
		default:
			return i
		}
	}
	return len(argv)
}

// assigns reports whether a wrapper takes a word for NAME=value.
func assigns(w string) bool {
	name, _, ok := strings.Cut(w, "=")
	return ok && name != "" && !strings.Contains(name, "/")
}

// wrapped reads the command that a wrapper runs. Where the wrapper has options, a dangerous name among the words is
// taken for a command as well: an option that is not known here may take a word of its own.
func (r *reader) wrapped(name string, o options, argv []string, in input, s scope) {
	at := o.end(argv)
	for i := 1; i < at; i++ {
		w := argv[i]
		if text, ok := splitString(argv, i); name == "env" && ok {
			r.envText(text, s)
			return
		}
		if key, value, assigned := strings.Cut(w, "="); o.assigns && assigned && !strings.HasPrefix(w, "-") {
			r.values.assignedText(key, value)
			r.variable(key, value, s.deeper())
		}
	}
	if name == "command" && slices.ContainsFunc(argv[1:at], func(w string) bool { return w == "-v" || w == "-V" }) {
		return // it only says where the command is
	}
	if at >= len(argv) && (name == "unshare" || name == "nsenter" || name == "sudo" || name == "chroot") {
		r.stdin(name, in, s) // it starts a shell
	}
	r.command(argv[at:], in, s.deeper())
	if slices.ContainsFunc(argv[1:at], func(w string) bool { return strings.HasPrefix(w, "-") }) {
		r.among(argv, at, in, s)
	}
}

// splitString returns the text that env takes apart, if the word at i makes it do so: -S, also behind other letters, or
// --split-string, also shortened. The words behind it belong to the command.
func splitString(argv []string, i int) (text string, ok bool) {
	w, rest := argv[i], argv[i+1:]
	name, value, given := strings.Cut(w, "=")
	switch {
	case len(name) > 3 && strings.HasPrefix("--split-string", name) && given:
		rest = append([]string{value}, rest...)
	case len(name) > 3 && strings.HasPrefix("--split-string", name):
	case len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.Contains(w, "S") &&
		!strings.ContainsAny(w[:strings.Index(w, "S")], "uCa"):
		if w = w[strings.Index(w, "S")+1:]; w != "" {
			rest = append([]string{w}, rest...)
		}
	default:
		return "", false
	}
	return strings.Join(rest, " "), true
}

// envText reads what env -S takes apart; its escapes are not those of a shell.
func (r *reader) envText(text string, s scope) {
	if strings.ContainsAny(text, `\$`) {
		r.doubt("env -S splits a text by its own rules")
	}
	r.loose(text)
	r.text("env "+text, s.deeper())
}

// carried reads the commands that stand somewhere among the words.
func (r *reader) carried(argv []string, in input, s scope) {
	done := 0
	switch args := slices.Index(argv, "--args"); {
	case path.Base(argv[0]) == "perf" && len(argv) > 2:
		done = options{valued: "-e -o -p -t -C -r -I -x -G -F -c -m -D --event --output --repeat --call-graph",
			before: 1}.end(argv)
	case path.Base(argv[0]) == "gdb" && args > 0:
		done = args + 1
	case path.Base(argv[0]) == "tmux" || path.Base(argv[0]) == "screen":
		for _, w := range argv[1:] {
			if strings.ContainsAny(w, "$`\\'\"{*?[") {
				r.doubt("%s passes to a shell what is known only at run time", argv[0])
			}
		}
	}
	if done > 0 {
		r.command(argv[done:], in, s.deeper())
	}
	r.among(argv, done, in, s)
}

// among takes each dangerous name among the words for a command, but not the one that is known to be one.
func (r *reader) among(argv []string, done int, in input, s scope) {
	for i := 1; i < len(argv) && r.within(s); i++ {
		if name := path.Base(argv[i]); i != done && (dangerous(name) || isShell(name) && i+1 < len(argv)) {
			r.command(argv[i:], in, s.deeper())
		}
	}
}

// dangerous names are those that the built-in rules are about.
func dangerous(name string) bool {
	return strings.HasPrefix(name, "mkfs") || slices.Contains([]string{"git", "rm", "dd", "find", "chmod", "chown",
		"shutdown", "reboot", "halt",
		"poweroff", "mke2fs", "mkswap", "wipefs", "shred", "xargs", "sudo", "env", "busybox", "eval"}, name)
}

// texts reads the words that a command hands to a shell.
func (r *reader) texts(name string, argv []string, in input, s scope) {
	switch name {
	case "eval":
		rest := argv[1:]
		if len(rest) > 0 && rest[0] == "--" {
			rest = rest[1:]
		}
		r.text(strings.Join(rest, " "), s.deeper().fed(in.piped || in.given || in.file != ""))
	case "watch":
		at := options{valued: "-n -q --interval --equexit"}.end(argv)
		r.text(strings.Join(argv[at:], " "), s.deeper())
	case "ssh":
		at := options{valued: "-i -p -l -o -F -J -L -R -D -b -c -e -m -E -I -O -Q -S -W -w -B", before: 1}.end(argv)
		r.text(strings.Join(argv[at:], " "), s.deeper())
		r.sshOptions(argv, s)
	case "trap":
		if at := (options{}).end(argv); at < len(argv) && argv[at] != "-" {
			r.text(argv[at], s.deeper())
		}
	case "parallel":
		r.parallel(argv, s)
	case "su", "script", "flock", "runuser", "nix-shell", "scriptreplay":
		for _, text := range values(argv, "-c", "--command", "--run") {
			if strings.Contains(text, "((") {
				r.doubt("%s passes double brackets to a shell, which not every shell treats as arithmetic", name)
			}
			r.text(text, s.deeper())
		}
	case "capsh":
		for _, program := range values(argv, "--shell") {
			r.command([]string{program}, input{}, s.deeper())
		}
		if i := slices.IndexFunc(argv, func(w string) bool { return w == "--" || w == "==" }); i > 0 {
			r.command(append([]string{"bash"}, argv[i+1:]...), in, s.deeper())
		}
	case "start-stop-daemon":
		rest := argv[len(argv):]
		if i := slices.Index(argv, "--"); i > 0 {
			rest = argv[i+1:]
		}
		for _, program := range values(argv, "-x", "-a", "--exec", "--startas") {
			r.command(append([]string{program}, rest...), in, s.deeper())
		}
	case "scp", "sftp":
		r.sshOptions(argv, s)
	case "make", "gmake", "just":
		r.makefile(name, argv, in)
	case "gdb", "lldb":
		r.debugger(name, argv)
	case "fc":
		r.doubt("fc runs commands of the history")
	case "nmap":
		for _, script := range values(argv, "--script") {
			if strings.Contains(script, "/") || !known(script) {
				r.doubt("nmap runs the script %q", brief(script))
			}
		}
	case "tmux", "screen", "hyperfine", "entr", "concurrently":
		for _, w := range argv[1:] {
			if strings.ContainsAny(w, " ;|&") && known(w) {
				r.text(w, s.deeper()) // they take a whole text as one word
			}
		}
	case "at", "batch", "crontab":
		r.doubt("%s runs commands later", name)
	}
	for _, text := range values(argv, textOptions[name]...) {
		r.text(strings.TrimPrefix(text, "exec="), s.deeper())
	}
}

// textOptions take a command as their value.
var textOptions = map[string][]string{
	"tar": {"--to-command", "--checkpoint-action", "-I", "--use-compress-program", "--rsh-command", "-F",
		"--info-script"},
	"gtar":  {"--to-command", "--checkpoint-action"},
	"split": {"--filter"}, "sftp": {"-S"},
	"rsync": {"-e", "--rsh", "--rsync-path"}, "sort": {"--compress-program"}, "rg": {"--pre"},
	"go": {"-exec", "-toolexec"}, "scp": {"-S"},
	"make": {"--eval", "-E"}, "man": {"-P", "--pager", "-H", "--html"}, "zip": {"-TT", "--unzip-command"},
}

// values returns the values of options: the next word, what follows =, or what follows a short option at once.
func values(argv []string, names ...string) []string {
	var found []string
	for i := 1; i < len(argv); i++ {
		for _, name := range names {
			short := len(name) == 2
			cluster := short && len(argv[i]) > 2 && argv[i][0] == '-' && argv[i][1] != '-' && strings.HasSuffix(argv[i],
				name[1:])
			switch {
			case (argv[i] == name || cluster) && i+1 < len(argv):
				found = append(found, argv[i+1])
			case strings.HasPrefix(argv[i], name+"="):
				found = append(found, argv[i][len(name)+1:])
			case !short && shortened(argv[i], name):
				if _, value, ok := strings.Cut(argv[i], "="); ok {
					found = append(found, value)
				} else if i+1 < len(argv) {
					found = append(found, argv[i+1])
				}
			case short && strings.HasPrefix(argv[i], name) && len(argv[i]) > 2:
				found = append(found, argv[i][2:])
			}
		}
	}
	return found
}

// shortened reports whether a word is a long option cut short, as most programs take it.
func shortened(w, name string) bool {
	w, _, _ = strings.Cut(w, "=")
	return len(w) > 3 && w != name && strings.HasPrefix(w, "--") && strings.HasPrefix(name, w)
}

// parallel joins its words to a text; {} is what it reads.
func (r *reader) parallel(argv []string, s scope) {
	at := options{valued: "-j -a -I --jobs --arg-file --joblog --results --timeout --delay"}.end(argv)
	rest := argv[at:]
	if i := slices.IndexFunc(rest, func(w string) bool { return strings.HasPrefix(w, ":::") }); i >= 0 {
		rest = rest[:i]
	}
	switch {
	case len(rest) == 0:
		r.doubt("parallel runs what it reads")
	case len(rest) == 1 && strings.ContainsAny(rest[0], " ;|&"):
		r.text(replace(rest, "{}", `"$PARALLEL"`)[0], s.deeper())
	default:
		r.command(append(replace(rest, "{}", guard.Unknown), guard.Many), input{}, s.deeper())
	}
}
