package audit

import (
	"slices"
	"strings"

	"toolhost.dev/shellscript/source"
)

// program describes which arguments of a program are secrets. All options include their dashes.
type program struct {
	// sub lists subcommands such as "login". If it is not empty, the description applies only to these
	// subcommands.
	sub []string
	// secret lists options with a secret value. The value is the next word or the rest of the same word. The
	// field "attached" lists options whose value is always in the same word.
	secret, attached []string
	// user lists options with a value of the form USER:PASSWORD.
	user []string
	// headers lists options with a value of the form NAME: VALUE.
	headers []string
	// after lists words that precede a secret. The secret is the next word.
	after []string
	// settings reports whether a word can be the name of a setting. The next word is then the value of the
	// setting.
	settings bool
	// last is the number of words between the subcommand and a secret. Zero means that the position of
	// secrets is not fixed.
	last int
	// exact reports whether each option is a whole word with one dash. The value is then always the next
	// word.
	exact bool
	// known lists all options without a secret value. An entry with "=" at the end has a value. The values
	// of all other options are masked. A nil list means that the program has too many options to list.
	known []string
}

// programs maps the name of each program to the description of its secret arguments.
var programs = func() map[string]program {
	mysql := program{
		attached: words(`-p`), secret: words(`--password --password1 --password2 --password3`),
		known: words(`-u= --user= -h= --host= -P= --port= -D= --database= -e= --execute= -S= --socket= --protocol= --default-character-set= --ssl-mode= --ssl-ca= --ssl-cert= --ssl-key=
			--defaults-file= --defaults-extra-file= --login-path= --init-command= --max-allowed-packet= --connect-timeout= --result-file= -r= --where= -w= --ignore-table= --tab= -T=
			-N -B -s -v -t -H -X -A -f -q -n -C -V -E -G -L --silent --batch --skip-column-names --verbose --table --raw --force --quick --compress --version --help --vertical --no-auto-rehash
			--databases --all-databases --tables --no-data -d --no-create-info --single-transaction --routines -R --triggers --events --add-drop-table --opt --skip-lock-tables --lock-tables --column-statistics= --hex-blob
			--set-gtid-purged= --ssl --skip-ssl --local-infile= --no-tablespaces --skip-comments --compact --extended-insert --html --xml --binary-mode --delimiter=`),
	}
	login := program{
		sub: words(`login`), secret: words(`-p --password`),
		known: words(`-u= --username= --password-stdin --authfile= --cert-dir= --tls-verify= --get-login -v --verbose --help -h -H= --host= --context= --config= -D --debug --log-level= --tls --insecure`),
	}
	mongo := program{secret: words(`-p --password`), known: words(`-u= --username= --host= --port= --eval= --quiet --authenticationDatabase= --authenticationMechanism= --tls --tlsCAFile= --norc --shell --file= -f= --db= -d= --collection= -c= --out= -o= --gzip --archive= --uri= --drop --help --version --json`)}
	out := map[string]program{
		"mysql": mysql, "mysqldump": mysql, "mysqladmin": mysql, "mysqlimport": mysql, "mariadb": mysql, "mariadb-dump": mysql, "mariadb-admin": mysql, "mysqlshow": mysql, "mycli": mysql,
		"docker": login, "podman": login, "buildah": login, "nerdctl": login, "skopeo": login, "mongosh": mongo, "mongo": mongo, "mongodump": mongo, "mongorestore": mongo, "mongoexport": mongo, "mongoimport": mongo,
		"curl": curl, "wget": wget,
		"sshpass":    {secret: words(`-p`), known: words(`-f= -d= -e -P= -v -V -h`)},
		"redis-cli":  {secret: words(`-a --pass`), known: words(`-h= -p= -s= -n= -u= --user= -r= -i= -x -c --raw --no-raw --csv --json --stat --latency --scan --pattern= --bigkeys --memkeys --eval= --tls --cacert= --cert= --key= --sni= --insecure --no-auth-warning --askpass -2 -3 -t= -d= --pipe --help --version --cluster= --rdb= --monitor --verbose`), after: words(`auth AUTH requirepass masterauth`)},
		"openssl":    {exact: true, secret: words(`-passin -passout -pass -k -K -password`)},
		"aws":        {settings: true, secret: words(`--secret-access-key --session-token --password --secret-string --master-user-password --token-code`)},
		"npm":        {settings: true, secret: words(`--otp --_authToken`)},
		"git":        {settings: true},
		"gh":         {secret: words(`--with-token --token --body -b`), sub: words(`auth secret`)},
		"glab":       {secret: words(`-t --token`), sub: words(`auth`)},
		"sqlcmd":     {secret: words(`-P`)},
		"bcp":        {secret: words(`-P`)},
		"ldapsearch": {secret: words(`-w`)},
		"smbclient":  {user: words(`-U --user`)},
		"htpasswd":   {last: 3, sub: words(`-b -bc -cb -nb -nbB -bB -Bb -bnB -Bbn -nbB`)},
		"zip":        {secret: words(`-P --password`)},
		"unzip":      {secret: words(`-P`)},
		"7z":         {attached: words(`-p`)},
		"7za":        {attached: words(`-p`)},
		"rar":        {attached: words(`-p -hp`)},
		"gpg":        {secret: words(`--passphrase`)},
		"ssh-keygen": {secret: words(`-N -P`)},
		"keytool":    {exact: true, secret: words(`-storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass`)},
		"http":       {user: words(`-a --auth`)},
		"https":      {user: words(`-a --auth`)},
		"vault":      {after: words(`login unwrap renew unseal`), settings: true},
		"cargo":      {after: words(`login`), secret: words(`--token`)},
		"twine":      {secret: words(`-p --password`)},
		"helm":       {secret: words(`-p --password`), sub: words(`login`)},
		"az":         {secret: words(`-p --password --account-key --sas-token --connection-string`)},
		"doctl":      {secret: words(`-t --access-token`)},
		"heroku":     {settings: true},
		"bw":         {after: words(`unlock`)},
		"poetry":     {settings: true, after: words(`http-basic`)},
		"pip":        {settings: true},
		"composer":   {settings: true},
		"gcloud":     {secret: words(`--password --access-token`)},
		"kubectl":    {secret: words(`--token --password --docker-password`)},
		"oc":         {secret: words(`--token -p --password`), sub: words(`login`)},
		"snowsql":    {secret: words(`--private-key-passphrase`)},
		"lftp":       {user: words(`-u`)},
		"ncftpput":   {secret: words(`-p`)}, "ncftpget": {secret: words(`-p`)},
		"xfreerdp": {attached: words(`/p:`)},
		"rclone":   {settings: true, secret: words(`--password-command`)},
		"ansible":  {secret: words(`--become-password`)},
		"flyway":   {attached: words(`-password=`)},
		"nmcli":    {after: words(`password wifi-sec.psk 802-11-wireless-security.psk`)},
		"useradd":  {secret: words(`-p --password`)}, "usermod": {secret: words(`-p --password`)},
		"security":          {secret: words(`-w -p`)},
		"influx":            {secret: words(`-t --token -p --password`)},
		"clickhouse-client": {secret: words(`--password`)},
		"cqlsh":             {secret: words(`-p --password`)},
		"rabbitmqctl":       {last: 3, sub: words(`add_user change_password`)},
		"svn":               {secret: words(`--password`)},
		"hg":                {settings: true},
	}
	for _, alias := range [][2]string{{"pnpm", "npm"}, {"yarn", "npm"}, {"pip3", "pip"}, {"ldapadd", "ldapsearch"},
		{"ldapmodify", "ldapsearch"}, {"gpg2", "gpg"}} {
		out[alias[0]] = out[alias[1]]
	}
	return out
}()

var curl = program{
	secret: words(`--pass --proxy-pass --tlspassword --proxy-tlspassword --oauth2-bearer -b --cookie --aws-sigv4-secret`), user: words(`-u --user -U --proxy-user -E --cert --proxy-cert`), headers: words(`-H --header --proxy-header`),
	known: words(`-d= --data= --data-raw= --data-binary= --data-urlencode= --data-ascii= --json= -F= --form= --form-string= -X= --request= -o= --output= -O --remote-name --remote-name-all -J -L --location --location-trusted -s --silent -S --show-error -f --fail
		--fail-with-body -i --include -I --head -v --verbose -k --insecure -A= --user-agent= -e= --referer= -x= --proxy= -m= --max-time= --connect-timeout= --retry= --retry-delay= --retry-max-time= --retry-all-errors --retry-connrefused -w= --write-out=
		-T= --upload-file= -G --get -C= --continue-at= -r= --range= -c= --cookie-jar= -D= --dump-header= -K= --config= --cacert= --capath= --key= --key-type= --cert-type= --ciphers= --tlsv1.2 --tlsv1.3 --tlsv1 --http1.1 --http2 --http3 --http1.0 -0 -1 -2 -3 -4 -6
		--ipv4 --ipv6 -N --no-buffer -n --netrc --netrc-file= --compressed --create-dirs --url= -g --globoff -q -Q= --quote= -z= --time-cond= -# --progress-bar -n --no-progress-meter --resolve= --connect-to= --interface= --unix-socket= --limit-rate=
		--max-redirs= --max-filesize= --path-as-is --post301 --post302 --noproxy= --socks5= --socks5-hostname= --trace= --trace-ascii= --stderr= --tcp-nodelay --keepalive-time= --parallel -Z --parallel-max= --anyauth --basic --digest --ntlm --negotiate
		--aws-sigv4= --output-dir= --variable= --expand-url= -y= -Y= --proto= --proto-redir= -a --append -l --list-only -B -j -M --manual -h --help -V --version -R --remote-time --raw --styled-output -p --proxytunnel -t= -P= --next -: --rate= --dns-servers= --doh-url= --http2-prior-knowledge --ssl-reqd --mail-from= --mail-rcpt=`),
}

var wget = program{
	secret: words(`--password --http-password --ftp-password --proxy-password`), headers: words(`--header`),
	known: words(`-O= --output-document= -o= --output-file= -a= -q --quiet -v --verbose -nv --no-verbose -c --continue -N --timestamping -r --recursive -l= --level= -np --no-parent -nc --no-clobber -nH -nd -P= --directory-prefix= -A= --accept= -R= --reject= -i= --input-file=
		-t= --tries= -T= --timeout= -w= --wait= -U= --user-agent= --user= --http-user= --ftp-user= --proxy-user= --post-data= --post-file= --method= --body-data= --body-file= --no-check-certificate --ca-certificate= --certificate= --private-key= --spider -S --server-response -k -K -p -E -m --mirror
		--convert-links --page-requisites --adjust-extension --content-disposition --trust-server-names --max-redirect= --referer= --load-cookies= --save-cookies= --keep-session-cookies --progress= --show-progress --limit-rate= -4 -6 -b --background -h --help -V --version -e= --retry-connrefused --waitretry= -x -nH --cut-dirs= --no-proxy --no-cache --compression= -D= -I= -X= -H -L -d -F -B= -Q=`),
}

// harmlessHeaders lists the headers whose values are not masked.
var harmlessHeaders = words(`accept accept-encoding accept-language content-type content-length content-encoding user-agent host origin referer range if-none-match if-modified-since
	cache-control connection x-requested-with x-forwarded-for x-forwarded-proto x-forwarded-host transfer-encoding expect x-request-id x-github-api-version anthropic-version dnt pragma upgrade etag traceparent x-http-method-override depth destination openai-beta openai-organization notion-version date prefer`)

// secrets masks the secrets in the arguments of the program.
func (p *program) secrets(args []source.Word, m mask) {
	if len(p.sub) > 0 &&
		!slices.ContainsFunc(args, func(a source.Word) bool { return slices.Contains(p.sub, a.Text) }) {
		return
	}
	if p.last > 0 {
		p.operand(args, m)
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case slices.Contains(p.after, a.Text):
			if i+1 < len(args) && !strings.HasPrefix(args[i+1].Text, "-") {
				i++
				hide(args[i], 0, len(args[i].Text), m)
			}
		case p.settings && p.setting(args, i, m):
		case len(a.Text) > 1 && (a.Text[0] == '-' || a.Text[0] == '/'):
			if p.option(args, i, m) {
				i++
			}
		}
	}
}

// operand masks the last words of a command if the position of the secret is fixed.
func (p *program) operand(args []source.Word, m mask) {
	var rest []source.Word
	for _, a := range args {
		if !strings.HasPrefix(a.Text, "-") {
			rest = append(rest, a)
		}
	}
	if len(rest) >= p.last || len(rest) == 2 {
		last := rest[len(rest)-1]
		hide(last, 0, len(last.Text), m)
	}
}

// setting masks the value of a setting with a secret name. The value is in the same word or in the next
// word.
func (p *program) setting(args []source.Word, i int, m mask) bool {
	name, value, valued := strings.Cut(args[i].Text, "=")
	lower := strings.ToLower(name)
	secret := !strings.HasPrefix(name, "-") && !strings.Contains(name, " ") &&
		(SecretName(name) || strings.HasSuffix(lower, "extraheader") || strings.HasPrefix(lower, "http-basic.") ||
			strings.HasSuffix(lower, "_auth"))
	if !secret || name == "" {
		return false
	}
	switch {
	case valued:
		hide(args[i], len(name)+1, len(name)+1+len(value), m)
		return true
	case strings.ContainsAny(name, "._:") && i+1 < len(args):
		for _, v := range args[i+1:] {
			if !strings.HasPrefix(v.Text, "-") {
				hide(v, 0, len(v.Text), m)
			}
		}
		return true
	}
	return false
}

// option masks the secret value of the option args[i]. It returns true if the value is the next word.
func (p *program) option(args []source.Word, i int, m mask) (next bool) {
	name, from := p.split(args[i].Text)
	value, at := args[i], from
	if from < 0 {
		if i+1 == len(args) {
			return false
		}
		value, at = args[i+1], 0
	}
	whole := func() { hide(value, at, len(value.Text), m) }
	switch {
	case slices.Contains(p.attached, name):
		if from >= 0 {
			whole()
		}
		return false
	case slices.Contains(p.secret, name):
		if name != "-b" && name != "--cookie" || strings.Contains(value.Text[at:], "=") { // otherwise the value is the name of a file
			passwordIn(value, at, m)
		}
		return from < 0
	case slices.Contains(p.user, name):
		userIn(value, at, m)
		return from < 0
	case slices.Contains(p.headers, name):
		header(value, at, m)
		return from < 0
	case p.known == nil || slices.Contains(p.known, name):
		return false
	case slices.Contains(p.known, name+"="):
		return from < 0
	case from >= 0 || !strings.HasPrefix(value.Text, "-") && !strings.Contains(value.Text, "://"):
		whole()
		return from < 0
	}
	return false
}

// split returns the option in a word and the offset of its value in the word. The offset is -1 if the word contains no
// value. In a group of short options, the first option that has a value or is unknown determines the result.
func (p *program) split(word string) (name string, value int) {
	if p.exact {
		return word, -1
	}
	if strings.HasPrefix(word, "--") {
		if name, _, ok := strings.Cut(word, "="); ok {
			return name, len(name) + 1
		}
		return word, -1
	}
	for _, list := range [][]string{p.secret, p.attached, p.user, p.headers} {
		for _, o := range list {
			if word == o {
				return o, -1
			}
			if len(o) > 2 && strings.HasPrefix(word, o) && !strings.HasPrefix(o, "--") {
				return o, len(o)
			}
		}
	}
	if slices.Contains(p.known, word) || slices.Contains(p.known, word+"=") {
		return word, -1
	}
	if p.known == nil && len(p.secret)+len(p.attached)+len(p.user)+len(p.headers) > 0 && len(word) > 2 {
		if o := word[:2]; !slices.Contains(p.secret, o) && !slices.Contains(p.attached, o) &&
			!slices.Contains(p.user, o) {
			return word, -1 // an option of another program, such as -passin
		}
		return word[:2], 2
	}
	for k := 1; k < len(word); k++ {
		if o := "-" + word[k:k+1]; !slices.Contains(p.known, o) {
			if k == len(word)-1 {
				return o, -1
			}
			return o, k + 1
		}
	}
	return word, -1
}

// passwordIn masks a password. It does not mask words of openssl that name the source of a password, such as env:NAME
// and file:PATH.
func passwordIn(value source.Word, at int, m mask) {
	text := value.Text[at:]
	for _, source := range []string{"env:", "file:", "fd:", "stdin"} {
		if strings.HasPrefix(text, source) {
			return
		}
	}
	if strings.HasPrefix(text, "pass:") {
		at += len("pass:")
	}
	hide(value, at, len(value.Text), m)
}

// userIn masks the password in USER:PASSWORD or USER%PASSWORD. It masks USER if there is no password, because USER can
// be a token.
func userIn(value source.Word, at int, m mask) {
	text := value.Text[at:]
	i := strings.IndexAny(text, ":%,")
	switch {
	case i < 0:
	case i == len(text)-1:
		hide(value, at, at+i, m)
	default:
		hide(value, at+i+1, len(value.Text), m)
	}
}

// header masks the value of a header. It does not mask the values of harmless headers.
func header(value source.Word, at int, m mask) {
	name, v, ok := strings.Cut(value.Text[at:], ":")
	if !ok || slices.Contains(harmlessHeaders, strings.ToLower(strings.TrimSpace(name))) {
		return
	}
	from := len(value.Text) - len(strings.TrimLeft(v, " "))
	if scheme, _, ok := strings.Cut(value.Text[from:], " "); ok && slices.Contains(schemes, strings.ToLower(scheme)) {
		from += len(scheme) + 1
	}
	hide(value, from, len(value.Text), m)
}
