package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"toolhost.dev/host/internal/audit"
)

// secretCommands lists commands with secrets. A secret is the text SeKr3t-Val, or a part of it, in a position that only
// the syntax of the command reveals. Other secrets are tokens in a known format with the letters ZZZZ.
var secretCommands = []string{
	`PGPASSWORD=SeKr3t-Val psql -h db -U app`, `MYSQL_PWD=SeKr3t-Val mysql -u root`, `SSHPASS=SeKr3t-Val sshpass -e ssh h`, `export DB_PASS=SeKr3t-Val`, `dbpassword=SeKr3t-Val ./run`,
	`GITHUB_PAT=SeKr3t-Val gh pr list`, `STRIPE_KEY=SeKr3t-Val node a.js`, `export A=1 API_TOKEN="SeKr3t-Val"`, `env SECRET_KEY=SeKr3t-Val make`, `sudo DB_PASS=SeKr3t-Val ./x`,
	`docker run -e DB_PASS=SeKr3t-Val postgres`, `docker run --env=POSTGRES_PASSWORD=SeKr3t-Val postgres`, `docker build --build-arg NPM_TOKEN=SeKr3t-Val .`, `declare -x AUTH_TOKEN='SeKr3t-Val'`,
	`readonly my_secret=SeKr3t-Val`, `tokens=(SeKr3t-Val b)`, `mysql -pSeKr3t-Val -u root`, `mysql -uroot -pSeKr3t-Val db`, `mysql -u root --password=SeKr3t-Val`, `mysqldump -pSeKr3t-Val db > x`,
	`mariadb -h h -p'SeKr3t-Val' db`, `mysql -p"SeKr3t-Val" -e 'select 1'`, `curl -u me:SeKr3t-Val https://x`, `curl -ume:SeKr3t-Val https://x`, `curl --user me:SeKr3t-Val https://x`, `curl --user=me:SeKr3t-Val https://x`,
	`curl -sSu me:SeKr3t-Val https://x`, `curl -u SeKr3t-Val: https://api.x`, `curl -H "Authorization: Bearer SeKr3t-Val" x`, `curl -H 'X-Api-Key: SeKr3t-Val' x`, `curl -H "PRIVATE-TOKEN: SeKr3t-Val" x`,
	`curl -H 'X-Vault: SeKr3t-Val' x`, `curl --header "Cookie: a=SeKr3t-Val" x`, `curl -b 'sid=SeKr3t-Val' x`, `curl --oauth2-bearer SeKr3t-Val x`, `curl -d 'user=a&password=SeKr3t-Val' x`,
	`curl -d '{"api_key":"SeKr3t-Val"}' x`, `curl --proxy-user a:SeKr3t-Val x`, `curl -E cert.pem:SeKr3t-Val x`, `curl --new-option=SeKr3t-Val x`, `wget --password=SeKr3t-Val x`, `wget --http-password SeKr3t-Val x`,
	`wget --header='X-Token: SeKr3t-Val' x`, `sshpass -p SeKr3t-Val ssh me@h`, `sshpass -pSeKr3t-Val ssh me@h`, `docker login -u me -p SeKr3t-Val r`, `docker login -pSeKr3t-Val r`, `docker login --password SeKr3t-Val`,
	`podman login --password=SeKr3t-Val r`, `echo SeKr3t-Val | docker login --password-stdin`, `docker login --password-stdin <<< SeKr3t-Val`, `redis-cli -a SeKr3t-Val ping`, `redis-cli --pass SeKr3t-Val`,
	`redis-cli AUTH SeKr3t-Val`, `redis-cli CONFIG SET requirepass SeKr3t-Val`, `psql postgres://u:SeKr3t-Val@h/db`, `psql "postgresql://u:SeKr3t-Val@h/db"`, `psql "host=h password=SeKr3t-Val"`,
	`openssl rsa -in k -passin pass:SeKr3t-Val`, `openssl enc -aes-256-cbc -k SeKr3t-Val`, `openssl pkcs12 -passout pass:SeKr3t-Val`, `aws configure set aws_secret_access_key SeKr3t-Val`,
	`aws configure set default.aws_session_token SeKr3t-Val`, `aws secretsmanager put-secret-value --secret-string SeKr3t-Val`, `git -c http.extraheader="Authorization: Basic SeKr3t-Val" fetch`,
	`git -c http.https://x/.extraheader=SeKr3t-Val fetch`, `git clone https://SeKr3t-Val@github.com/a/b`, `git clone https://me:SeKr3t-Val@github.com/a/b`, `git remote set-url origin https://oauth2:SeKr3t-Val@gitlab.com/a`,
	`git config user.password SeKr3t-Val`, `gh auth login --with-token <<< SeKr3t-Val`, `echo SeKr3t-Val | gh auth login --with-token`, `gh secret set X --body SeKr3t-Val`, `glab auth login -t SeKr3t-Val`,
	`npm config set //registry.npmjs.org/:_authToken SeKr3t-Val`, `npm config set //registry.npmjs.org/:_authToken=SeKr3t-Val`, `npm publish --otp SeKr3t-Val`, `curl 'https://x.blob/y?sv=1&sig=SeKr3t-Val'`,
	`curl "https://x/?token=SeKr3t-Val"`, `curl 'https://x/?key=SeKr3t-Val&a=b'`, `curl 'https://s3/x?X-Amz-Signature=SeKr3t-Val'`, `curl "https://x?access_token=SeKr3t-Val"`,
	`bash -c 'mysql -pSeKr3t-Val db'`, `ssh h "PGPASSWORD=SeKr3t-Val psql"`, `docker exec db mysql -uroot -pSeKr3t-Val`, `kubectl exec p -- mysql -pSeKr3t-Val`, `sudo -u x mysql -pSeKr3t-Val`, `timeout 5 redis-cli -a SeKr3t-Val`,
	"bash <<EOF\nmysql -pSeKr3t-Val\nEOF", "cat > .env <<EOF\nDB_PASS=SeKr3t-Val\nEOF", `echo "DB_PASSWORD=SeKr3t-Val" >> .env`, `x=$(PGPASSWORD=SeKr3t-Val psql)`, `f() { mysql -pSeKr3t-Val; }`,
	`if true; then TOKEN=SeKr3t-Val ./x; fi`, `echo me:SeKr3t-Val | chpasswd`, `echo SeKr3t-Val | sudo -S ls`, `sudo -S ls <<< SeKr3t-Val`, `zip -P SeKr3t-Val a.zip b`, `7z a -pSeKr3t-Val x.7z y`, `gpg --passphrase SeKr3t-Val -d f`,
	`ssh-keygen -t ed25519 -N SeKr3t-Val -f k`, `keytool -list -storepass SeKr3t-Val`, `http -a me:SeKr3t-Val x`, `vault login SeKr3t-Val`, `cargo login SeKr3t-Val`, `twine upload -p SeKr3t-Val d`, `htpasswd -bc f me SeKr3t-Val`,
	`mongosh -u a -p SeKr3t-Val`, `sqlcmd -P SeKr3t-Val`, `ldapsearch -w SeKr3t-Val`, `smbclient -U me%SeKr3t-Val //h/s`, `helm registry login -u a -p SeKr3t-Val r`, `bw unlock SeKr3t-Val`, `kubectl --token=SeKr3t-Val get po`,
	`./deploy --api-key SeKr3t-Val`, `./deploy --db-password=SeKr3t-Val`, `terraform apply -var=db_password=SeKr3t-Val`, `terraform apply -var 'db_password=SeKr3t-Val'`, `kubectl create secret generic x --from-literal=password=SeKr3t-Val`,
	`heroku config:set API_TOKEN=SeKr3t-Val`, `mysql -pSeKr3t-Val "unclosed`, "mysql -pSeKr3t-Val\nfor (", `composer config http-basic.repo.x me SeKr3t-Val`,
	`curl -X POST https://hooks.slack.com/services/T000/B000/ZZZZ`, `echo xoxb-1234567890-ZZZZZZZZ`, `echo xoxe.xoxp-1-ZZZZZZZZZZZZ`, `echo AKIAZZZZZZZZZZZZZZZZ`, `echo ghp_ZZZZZZZZZZZZZZZZZZZZZZZZ`, `echo github_pat_ZZZZZZZZZZZZZZZZZZZZZZ`,
	`echo glpat-ZZZZZZZZZZZZZZZZZZZZ`, `echo sk_live_ZZZZZZZZZZZZ`, `echo rk_live_ZZZZZZZZZZZZ`, `echo sk-proj-ZZZZZZZZZZZZZZZZZZ`, `echo sk-ant-api03-ZZZZZZZZZZZZZZ`, `echo AIzaZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ`,
	`echo eyJhbGciOiJI.eyJzdWIiOiIx.ZZZZ`, "echo '-----BEGIN EC PRIVATE KEY-----\nZZZZ\n-----END EC PRIVATE KEY-----' > k", `curl https://discord.com/api/webhooks/1/ZZZZ`, `curl https://api.telegram.org/bot123456789:ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ/x`,
	`export CS="DefaultEndpointsProtocol=https;AccountKey=ZZZZZZZZZZZZZZZZZZZZ=="`, `echo hvs.ZZZZZZZZZZZZZZZZZZZZ`,
}

// TestSecretsInCommands checks that no secret is stored, neither in a command nor in an argument of a call.
func TestSecretsInCommands(t *testing.T) {
	m := audit.New(nil)
	if len(secretCommands) < 80 {
		t.Fatal(len(secretCommands))
	}
	for _, command := range secretCommands {
		raw, err := json.Marshal(map[string]any{"command": command, "timeout": 5})
		if err != nil {
			t.Fatal(err)
		}
		arguments, text := m.Entry(raw)
		for _, got := range []string{m.Command(command), arguments, text("bash: no rule allows " + command)} {
			if strings.Contains(got, "SeKr3t") || strings.Contains(got, "Val") || strings.Contains(got, "ZZZZ") || !strings.Contains(got, audit.Mask) {
				t.Errorf("%s\n\t%s", command, got)
			}
		}
	}
}

// TestPlainCommandsStay checks that commands without secrets are stored unchanged.
func TestPlainCommandsStay(t *testing.T) {
	m := audit.New(nil)
	for command := range strings.Lines(plainCommands) {
		command = strings.TrimSuffix(command, "\n")
		if got := m.Command(command); got != command {
			t.Errorf("%s\n\t%s", command, got)
		}
	}
	if n := strings.Count(plainCommands, "\n"); n < 100 {
		t.Error(n)
	}
}

const plainCommands = `ls -la
git status
git log --oneline -n 20 --author=me
git commit -m "rotate the tokens and the api key"
git commit -am 'fix password prompt: ask once'
git clone git@github.com:a/b.git
git clone https://github.com/a/b.git
git clone ssh://git@github.com/a/b
git push origin HEAD:main
git -c color.ui=always diff
git config user.email me@example.org
git config --get remote.origin.url
git checkout -b feature/token-refresh
git diff HEAD~1 -- src/auth/login.go
grep -rn "token" src
grep -rn 'password' --include='*.go' .
grep -n "func SecretName" -A5 audit.go
rg -n 'api[_-]?key' src
cat secrets/readme.md
cat /etc/passwd | head -3
go test -run TestToken ./...
go build -o bin/app ./cmd/app
go test -race -count=1 ./internal/auth/...
sort -k2 --key=2,3 a.txt
sort --key 2 a.txt
find . -name '*.pem' -not -path './node_modules/*'
find . -type f -newer a -exec grep -l key {} +
curl -sSL https://example.org/install.sh
curl -s -o out.json -w '%{http_code}' http://localhost:8080/health
curl -X POST -H 'Content-Type: application/json' -d '{"name":"a","n":1}' http://localhost:3000/items
curl -fsSL --retry 3 https://get.example.org | sh
curl -I https://example.org/a?page=2&sort=name
curl --cacert ca.pem --cert client.pem --key client.key https://h
curl -u me https://h
curl -b cookies.txt -c cookies.txt https://h
curl -H "Accept: text/html" -A "Mozilla/5.0" https://h
wget -q -O - https://example.org/x.tgz
wget -r -np -nH --cut-dirs=2 https://example.org/d/
mysql -u root -h db -e 'show tables' app
mysql -p -u root
mysqldump --single-transaction -u root app > dump.sql
psql -h db -U app -c 'select 1'
psql postgres://app@db:5432/app
redis-cli -h r -p 6379 ping
redis-cli get user:1
docker run --rm -it -p 8080:80 -v "$PWD":/w nginx
docker run -p 5432:5432 -e POSTGRES_DB=app postgres:16
docker build -t app:latest --build-arg VERSION=1.2 .
docker compose up -d
docker ps -a --format '{{.Names}}'
docker login
docker exec -it db psql -U app
kubectl get secrets -n prod
kubectl get pods -o wide
kubectl describe secret db-credentials
helm upgrade -i app ./chart -f values.yaml
npm install
npm run build -- --mode=production
npm config get registry
npm config set registry https://registry.npmjs.org/
npx tsc --noEmit -p tsconfig.json
yarn add left-pad
pip install -r requirements.txt
python -m pytest -k token -x tests/
python manage.py createsuperuser --username admin
PYTHONPATH=src python -m app --port 8000
NODE_ENV=test npm test
CGO_ENABLED=0 GOOS=linux go build ./...
PASS=0; FAIL=0; for t in a b; do PASS=$((PASS+1)); done
KEY=abc ./x
export PATH="$HOME/bin:$PATH"
export EDITOR=vim
MAX_TOKENS=4096 python run.py
TOKEN=$(cat token.txt) ./run
export GITHUB_TOKEN=$GH_TOKEN
curl -H "Authorization: Bearer $TOKEN" https://h
mysql -p"$DB_PASS" -u root
TOKEN_FILE=/run/token ./x
SSH_AUTH_SOCK=/tmp/agent ssh h
ssh -i ~/.ssh/id_ed25519 -p 2222 me@host 'ls -la'
ssh-keygen -t ed25519 -f key
scp -P 2222 a.txt me@h:/tmp
rsync -avz --exclude node_modules ./ h:/srv
tar -czf a.tgz --exclude='*.key' .
zip -r a.zip d
unzip -l a.zip
openssl x509 -in cert.pem -noout -dates
openssl req -new -newkey rsa:2048 -nodes -keyout k.pem -out r.csr
openssl rand -hex 32
gpg --list-secret-keys
gpg --verify a.sig a
aws s3 ls s3://bucket/key
aws ec2 describe-key-pairs --key-names k
aws configure list
gh pr list --author me --json title
gh auth status
gh api repos/a/b/actions/secrets
make -j4 test
make auth-service
cargo test --package auth
terraform plan -var-file=prod.tfvars
ansible-playbook -i inventory site.yml --ask-vault-pass
systemctl status sshd
sed -i 's/token/key/g' a.txt
awk -F: '{print $1}' /etc/passwd
jq '.token' a.json
echo "no password given"
echo password
sudo apt-get install -y openssl redis-tools mysql-client
ps aux | grep mysql
tail -f /var/log/auth.log
touch secrets.md && mkdir -p keys
diff <(sort a) <(sort b)
printf '%s\n' "$USER"
for k in a b; do echo "key: $k"; done
tokenizer=fast ./x
monkey=banana ./x
author=me ./x
vim src/keyboard.ts
ls keys/ && cat keys/public.pem
read -p "continue? " yn
node -e 'console.log(process.env.HOME)'
sqlite3 app.db 'select * from tokens limit 3'
`
