package landlock

import "os"

// gitFiles are the machine's configuration of git, and the variable that makes git do without each. Git ends with an
// error where one of them exists and cannot be read.
var gitFiles = [...]struct{ path, without string }{
	{"/etc/gitconfig", "GIT_CONFIG_NOSYSTEM"},
	{"/etc/gitattributes", "GIT_ATTR_NOSYSTEM"},
}

// gitConfig returns the files of the machine's git configuration that commands may read, which are those that every
// user of the machine may read, and the environment that makes git do without the others, which may hold secrets.
func gitConfig() (read []string, env map[string]string) {
	env = make(map[string]string)
	for _, f := range gitFiles {
		info, err := os.Stat(f.path)
		switch {
		case os.IsNotExist(err):
		case err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0:
			read = append(read, f.path)
		default:
			env[f.without] = "1"
		}
	}
	return read, env
}
