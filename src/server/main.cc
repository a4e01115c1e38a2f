// idmintd: the daemon.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <expected>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advice/words.h"
#include "base/errors.h"
#include "base/text.h"
#include "base/url.h"
#include "idmint/executor.h"
#include "idmint/mint.h"
#include "idmint/store.h"
#include "mint/records.h"
#include "server/log.h"
#include "server/probe.h"
#include "server/server.h"
#include "server/settings.h"
#include "server/settings_file.h"
#include "server/supervisor.h"
#include "terminal/advice.h"
#include "terminal/credentials.h"
#include "terminal/exit_status.h"
#include "terminal/help.h"
#include "terminal/output.h"
#include "terminal/process.h"

namespace idmint::server {
namespace {

constexpr const char* kFooter =
    R"(Without options it serves the formats except snowflake and uuid2, and the
sequences and pools of the default store, to programs on this machine.

Any Redis client works:
  $ idmint create orders
  $ redis-cli -p 7379 INCR orders
  $ redis-cli -p 7379 ID.NEXT uuid7
So does any HTTP client:
  $ curl -X POST http://localhost:7380/v1/ids/orders
  $ curl -X POST http://localhost:7380/v1/ids/uuid7?count=3

SIGTERM and SIGINT end it, after it has answered the calls that it took. SIGHUP
makes it read the file of --config again; without a file SIGHUP ends it.
)";

constexpr const char* kTokenFooter =
    R"(The token is printed once, and stored nowhere. Add the table to the file of
idmintd --config, and send the process SIGHUP:
  $ idmintd token web --allow "next orders*" --allow "peek *"
A client sends it as AUTH TOKEN, or as Authorization: Bearer TOKEN.
)";

constexpr const char* kProbeFooter =
    R"(It asks the first HTTP address of the settings, one without TLS before others.
With ADDRESS no settings are read: the daemon may serve by others than those
that stand there now.

Exit status: 0 ready, 7 not ready, 2 wrong usage or settings with a fault,
5 the settings have no HTTP
)";

// For calls of the store that are under way when the time to drain is over: two deadlines of 5 s,
// the wait for a thread among them.
constexpr std::chrono::seconds kAfterDrain{10};

// How long the start waits for a store that does not answer.
constexpr std::chrono::milliseconds kFirstLook{500};

struct CommandLine {
  std::string config{};
  bool check = false;
  std::vector<std::string> stores{};
  std::vector<std::string> also{};
  std::vector<std::string> over{};
  std::vector<std::string> redis{};
  std::vector<std::string> http{};
};

// NAME=URL has a name before anything that a URL begins with; nothing: it is a URL alone.
std::optional<std::pair<std::string, std::string>> named_store(const std::string& given) {
  const std::size_t equals = given.find('=');
  if (equals == std::string::npos || given.find_first_of(":/") < equals) return std::nullopt;
  return std::pair(given.substr(0, equals), given.substr(equals + 1));
}

// From the file, then from the variables, then from the command line; or what is wrong in them.
std::expected<Settings, std::vector<Error>> settings_of(const CommandLine& line) {
  Settings settings;
  std::vector<Error> faults;
  if (line.config.contains("://"))  // which may have a password
    return std::unexpected(std::vector{Error{
        Code::kInvalidArgument, "--config takes a file of settings, and not a URL: --store URL"}});
  if (!line.config.empty()) {
    const Result<std::string> text = read_plain_file(line.config, kLongestSettings + 1);
    if (!text) {
      return std::unexpected(std::vector{Error{
          Code::kInvalidArgument, "cannot read the file of --config: " + text.error().message()}});
    }
    faults = read_toml(line.config, *text, settings);
  }
  const std::vector<Error> of_variables = read_environment(
      // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets variables here
      [](const char* name) { return std::getenv(name); }, settings);
  faults.insert(faults.end(), of_variables.begin(), of_variables.end());
  for (const std::string& given : line.stores) {
    std::optional<std::pair<std::string, std::string>> named = named_store(given);
    if (!named) {
      settings.store = {.url = given, .origin = "--store"};
    } else if (Result<void> valid = check_store_name(named->first); !valid) {
      faults.push_back({Code::kInvalidArgument, "--store: " + valid.error().message()});
    } else {
      settings.stores.push_back(
          {.name = std::move(named->first), .url = std::move(named->second), .origin = "--store"});
    }
  }
  if (!line.also.empty()) settings.also = {.urls = line.also, .origin = "--also"};
  if (!line.over.empty()) settings.over = {.urls = line.over, .origin = "--over"};
  if (!line.redis.empty() || !line.http.empty()) {
    settings.redis = line.redis;
    settings.http = line.http;
  }
  if (settings.tls.certificate.empty() != settings.tls.key.empty())
    faults.push_back(
        {Code::kInvalidArgument, "TLS needs both certificate and key: set the other one, too"});
  if (settings.tls.certificate.empty() && !settings.tls.client_ca.empty())
    faults.push_back({Code::kInvalidArgument,
                      "tls.client_ca has no effect without tls.certificate and tls.key: set them"});
  if (!faults.empty()) return std::unexpected(std::move(faults));
  return settings;
}

// The error with its advice as a command. It names the store as `given`, where that is a place of
// the URL; a URL that cannot be printed whole is left to the reader.
Error with_command(Error error, const std::string& given, const std::string& url) {
  const bool is_place = given.starts_with("env:") || given.starts_with("file:");
  const std::string store = is_place ? given : has_secret(url) ? "URL" : url;
  if (error.advice.subject == redacted(url)) error.advice.subject.clear();
  return worded(std::move(error), store);
}

// A URL that names no store is refused at the start. A store that does not answer yet, or is made
// later, is opened at its first use, so that the clients of others do not wait for it. With `check`
// it is an error if the store does not answer, or lacks the folder in which it would be made.
Result<ServedStore> served(const StoreSetting& given, bool check) {
  ServedStore store{.name = given.name};
  if (given.url.empty()) return store;
  Result<std::string> url = url_given(given.origin, given.url);
  if (!url) return std::unexpected(std::move(url.error()));
  store.mint.store = *std::move(url);
  const StoreKind* const kind = store_kind(store.mint.store);
  if (kind != nullptr && !kind->lasts) return store;
  StoreOptions options{.create = false};
  if (!check) options.deadline = std::min(options.deadline, kFirstLook);
  const Result<std::unique_ptr<Store>> there = Store::open(store.mint.store, options);
  if (there) return store;
  const Code code = there.error().code;
  const Error error = with_command(there.error(), given.url, store.mint.store);
  const auto refused = [&] {
    return std::unexpected(Error{code, given.origin + ": " + error.message()});
  };
  if (code == Code::kInvalidArgument || code == Code::kUnimplemented) return refused();
  const bool is_empty = there.error().advice.remedy == Remedy::kCreateStore;
  if (check && !is_empty) return refused();
  const std::string_view so = is_empty ? "no sequences yet: " : "no ids from the store yet: ";
  report_notice((store.name.empty() ? "" : store.name + ": ") + std::string(so) + error.message(),
                false);
  return store;
}

// With what env:NAME and file:PATH stand for. kInvalidArgument: one is not the URL of a store.
Result<std::vector<std::string>> urls_of(const StoresSetting& setting) {
  std::vector<std::string> urls;
  for (const std::string& given : setting.urls) {
    Result<std::string> url = url_given(setting.origin, given);
    if (!url) return std::unexpected(std::move(url.error()));
    if (store_kind(*url) == nullptr)
      return refuse(setting.origin + ": " + redacted(*url) + " is not the URL of a store");
    urls.push_back(*std::move(url));
  }
  return urls;
}

// The options that a reload changes.
ServerOptions changeable(const Settings& settings) {
  ServerOptions of{.tls = settings.tls,
                   .tokens = settings.tokens,
                   .all_hold_64_bits = settings.all_hold_64_bits};
  of.most_created.sources = settings.max_sources.value_or(of.most_created.sources);
  of.most_created.stripes = settings.max_stripes.value_or(of.most_created.stripes);
  of.most_created.leases = settings.max_leases.value_or(of.most_created.leases);
  return of;
}

// Sockets that came with the process stand beside the addresses of the settings, and replace the
// default ones.
Result<ServerOptions> options_of(const Settings& settings, const std::vector<Listen>& sockets,
                                 bool check) {
  ServerOptions options = changeable(settings);
  options.version = IDMINT_VERSION;
  Result<ServedStore> first = served(settings.store, check);
  if (!first) return std::unexpected(std::move(first.error()));
  options.stores.push_back(*std::move(first));
  for (const StoreSetting& given : settings.stores) {
    for (const ServedStore& other : options.stores) {
      if (other.name == given.name)
        return refuse("two stores have the name " + shown(given.name) + ": rename one of them");
    }
    Result<ServedStore> store = served(given, check);
    if (!store) return std::unexpected(std::move(store.error()));
    options.stores.push_back(*std::move(store));
  }
  const Result<std::vector<std::string>> also = urls_of(settings.also);
  if (!also) return std::unexpected(also.error());
  const Result<std::vector<std::string>> over = urls_of(settings.over);
  if (!over) return std::unexpected(over.error());
  for (ServedStore& store : options.stores) {
    store.mint.also = *also;
    store.mint.over = *over;
    // In threads of the executor, beside the log.
    store.mint.notice = [name = store.name](std::string_view text) {
      if (takes_messages())
        report_notice((name.empty() ? "" : name + ": ") + std::string(text), false);
    };
  }
  for (const std::string& at : settings.redis) options.listen.push_back({Protocol::kRedis, at});
  for (const std::string& at : settings.http) options.listen.push_back({Protocol::kHttp, at});
  options.listen.insert(options.listen.end(), sockets.begin(), sockets.end());
  if (options.listen.empty())
    options.listen = {{Protocol::kRedis, "127.0.0.1:7379"}, {Protocol::kHttp, "127.0.0.1:7380"}};
  if (settings.max_connections)
    options.most_connections = static_cast<std::size_t>(*settings.max_connections);
  if (settings.drain_seconds) options.drain = std::chrono::seconds{*settings.drain_seconds};
  return options;
}

// The errors that Server::open() would have, but for those of the system.
Result<void> check(const ServerOptions& options) {
  for (const Listen& listen : options.listen) {
    if (listen.descriptor) continue;
    if (Result<void> valid = validate(listen, options.tls, !options.tokens.empty()); !valid)
      return valid;
  }
  if (options.tls.certificate.empty()) return {};
  const auto tls = TlsContext::open(options.tls);
  return tls ? Result<void>() : std::unexpected(tls.error());
}

// The keys that a running server cannot take over and that have changed: "store, redis".
std::string keys_to_restart_for(const Settings& now, const Settings& then) {
  struct Key {
    std::string_view name;
    bool changed;
  };
  const std::array keys = {
      Key{"store", now.store != then.store},
      Key{"[stores]", now.stores != then.stores},
      Key{"also", now.also != then.also},
      Key{"over", now.over != then.over},
      Key{"redis", now.redis != then.redis},
      Key{"http", now.http != then.http},
      Key{"max_connections", now.max_connections != then.max_connections},
      Key{"drain_seconds", now.drain_seconds != then.drain_seconds},
  };
  std::string changed;
  for (const Key& key : keys)
    if (key.changed) changed.append(changed.empty() ? "" : ", ").append(key.name);
  return changed;
}

// Whether the settings had no fault. On the loop, which does not wait for whoever reads the
// messages.
bool reload(const CommandLine& line, const Settings& running, Server& server, Log& log) {
  const auto refuse_all = [&](const std::vector<Error>& faults) {
    // So short that the log does not cut off what follows it.
    constexpr std::size_t longest = 450;
    for (const Error& fault : faults) {
      std::string message = fault.message();
      message.resize(std::min(message.size(), longest));
      log.write(LogSettings::Level::kError, "settings_refused",
                {{"message", message + "; the settings stay as they were"}});
    }
    return false;
  };
  std::expected<Settings, std::vector<Error>> fresh = settings_of(line);
  if (!fresh) return refuse_all(fresh.error());
  if (const Result<void> changed = server.change(changeable(*fresh)); !changed)
    return refuse_all({changed.error()});
  log.set(fresh->log);
  if (takes_messages()) std::cerr << "idmintd: read the settings again\n";
  if (const std::string keys = keys_to_restart_for(running, *fresh); !keys.empty())
    log.write(LogSettings::Level::kWarning, "restart_needed",
              {{"keys", keys},
               {"message",
                "these settings have changed, and stay as they were until idmintd is "
                "started again"}});
  return true;
}

// Prints the text on standard output. Returns the exit status.
int print(std::string_view text) {
  Output out(STDOUT_FILENO);
  out.write(text);
  out.close();
  if (out.reader_gone()) return end_by(SIGPIPE);
  return out.failed() ? fail_with(out.failure(false), false) : 0;
}

int serve(const CommandLine& line) {
  std::expected<Settings, std::vector<Error>> settings = settings_of(line);
  if (!settings) {
    for (const Error& fault : settings.error()) report(fault, false);
    return exit_status(settings.error().front().code);
  }
  const Result<Supervisor> supervisor = Supervisor::from_environment();
  if (!supervisor) return fail_with(supervisor.error(), false);
  Result<ServerOptions> options = options_of(*settings, supervisor->sockets(), line.check);
  if (!options) return fail_with(options.error(), false);
  if (line.check) {
    if (const Result<void> sound = check(*options); !sound) return fail_with(sound.error(), false);
    return print("the settings have no fault\n");
  }
  Log log(settings->log);
  options->log = &log;
  const std::vector<Listen> listen = options->listen;
  const std::chrono::milliseconds drain = options->drain;
  Result<std::unique_ptr<Server>> server = Server::open(*std::move(options));
  if (!server) return fail_with(server.error(), false);
  for (std::size_t i = 0; i < listen.size(); ++i) {
    std::cerr << "idmintd: serving "
              << (listen[i].protocol == Protocol::kRedis ? "the Redis protocol" : "HTTP") << " on "
              << (*server)->addresses()[i] << '\n';
  }
  supervisor->attend(**server);
  (*server)->every(std::chrono::seconds{1}, [] {
    // Not posted: the next one writes.
    [[maybe_unused]] const Result<void> posted = shared_executor().post(&write_all_records);
  });
  std::vector<int> ends{SIGTERM, SIGINT};
  if (line.config.empty()) {
    ends.push_back(SIGHUP);
  } else {
    (*server)->at(SIGHUP, [&] {
      supervisor->notify_reloading();
      const bool sound = reload(line, *settings, **server, log);
      supervisor->notify_ready(addresses_served(**server) +
                               (sound ? "" : "; the settings have a fault, and stay as they were"));
    });
  }
  (*server)->stop_at(ends, [&](int) {
    supervisor->notify_stopping(drain + kAfterDrain);
    if (takes_messages()) std::cerr << "idmintd: answers what it has taken, and ends\n";
  });
  (*server)->run();
  server->reset();
  write_all_records();
  log.flush();
  return 0;
}

int print_token(const std::string& name, const std::vector<std::string>& allow) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (name.empty() || name.size() > 60 || name.find_first_not_of(allowed) != std::string::npos)
    return fail_with({Code::kInvalidArgument,
                      "the name of a token has 1 to 60 characters out of A-Z a-z 0-9 _ -"},
                     false);
  for (const std::string& text : allow) {
    if (const Result<Scope> scope = scope_of(text); !scope) return fail_with(scope.error(), false);
    if (text.find_first_of("\"\\") != std::string::npos || text != escaped(text))
      return fail_with({Code::kInvalidArgument,
                        "the pattern in " + shown(text) + " has characters that no name has"},
                       false);
  }
  const std::string token = new_token();
  return print(token + "\n\n" + to_toml(name, hash_of(token), allow));
}

struct Probe {
  std::string address{};
  bool live = false;
  int timeout = 6;  // seconds; a store may take 5
};

int print_probe(const CommandLine& line, Probe asked) {
  if (asked.address.empty()) {
    const std::expected<Settings, std::vector<Error>> settings = settings_of(line);
    if (!settings) {
      for (const Error& fault : settings.error()) report(fault, false);
      return exit_status(settings.error().front().code);
    }
    Result<std::string> address = address_to_probe(*settings);
    if (!address) return fail_with(address.error(), false);
    asked.address = *std::move(address);
  }
  const Result<void> answer = probe(asked.address, asked.live ? "/healthz" : "/readyz",
                                    std::chrono::seconds{asked.timeout});
  if (!answer) return fail_with(answer.error(), false);
  return print(asked.address + (asked.live ? ": serves\n" : ": ready\n"));
}

// The names that other servers have for these options.
constexpr std::string_view kWhereToListen = "--redis ADDRESS:PORT or --http ADDRESS:PORT";
constexpr std::array kMeantByDaemon = {
    Meant{"--port", kWhereToListen},
    Meant{"-p", kWhereToListen},
    Meant{"--listen", kWhereToListen},
    Meant{"--bind", kWhereToListen},
    Meant{"--host", kWhereToListen},
    Meant{"--address", kWhereToListen},
    Meant{"-c", "--config FILE"},
    Meant{"-f", "--config FILE"},
    Meant{"-t", "--check"},
    Meant{"--test", "--check"},
    Meant{"--dry-run", "--check"},
    Meant{"--uri", "--store URL"},
    Meant{"--url", "--store URL"},
    Meant{"--database", "--store URL"},
    Meant{"--log-level", "the variable IDMINTD_LOG_LEVEL, or level of [log] in --config FILE"},
};

// Words that other programs take, and what to type here instead.
constexpr std::array kWordsMeant = {
    Meant{"start",
          "idmintd alone starts it, in the foreground; as a service: systemctl start idmintd"},
    Meant{"run", "idmintd alone runs it, in the foreground"},
    Meant{"serve", "idmintd alone serves, in the foreground"},
    Meant{"server", "idmintd alone serves, in the foreground"},
    Meant{"daemon",
          "idmintd alone serves, in the foreground; as a service: systemctl start idmintd"},
    Meant{"stop", "send its process SIGTERM; as a service: systemctl stop idmintd"},
    Meant{"restart",
          "send its process SIGTERM, and start idmintd again; as a service: systemctl restart "
          "idmintd"},
    Meant{
        "reload",
        "send its process SIGHUP, and it reads the file of --config again; as a service: systemctl "
        "reload idmintd"},
    Meant{"status",
          "idmintd probe asks whether it is ready; as a service: systemctl status idmintd"},
    Meant{"health", "idmintd probe --live asks whether it serves"},
    Meant{"healthcheck", "idmintd probe asks whether it is ready"},
    Meant{"ready", "idmintd probe asks whether it is ready"},
    Meant{"ping", "idmintd probe --live asks whether it serves"},
    Meant{"help", "type idmintd --help, idmintd token --help or idmintd probe --help"},
    Meant{"version", "type idmintd --version"},
    Meant{"check", "type idmintd --check, with the options that it is to be started with"},
    Meant{"test", "type idmintd --check, with the options that it is to be started with"},
};

// Looks at the first word, and at those that the parser left.
std::optional<Error> word_meant(std::span<const char* const> words, const CLI::App& app) {
  std::vector<std::string> given = app.remaining();
  if (words.size() > 1) given.insert(given.begin(), words[1]);
  for (const std::string& word : given) {
    const auto* const found = std::ranges::find(kWordsMeant, word, &Meant::typed);
    if (found != kWordsMeant.end())
      return Error{Code::kInvalidArgument,
                   "there is no command \"" + word + "\": " + std::string(found->option)};
  }
  return std::nullopt;
}

int run(std::span<const char* const> words) {
  CLI::App app(wrapped("idmintd serves globally unique ids, never the same one twice, over the "
                       "protocol of Redis and over HTTP.",
                       kHelpColumns),
               "idmintd");
  fit_help(app);
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", "idmintd " IDMINT_VERSION, "Print the version");
  app.footer(kFooter);
  CommandLine line;
  app.add_option("--config", line.config,
                 "A file of settings in TOML; or IDMINTD_CONFIG. The options below override it")
      ->type_name("FILE");
  app.add_flag("--check", line.check, "Say what is wrong in the settings, and serve nothing");
  app.add_option(
         "--store", line.stores,
         "The URL of the store: " + advice::store_examples() +
             ", env:NAME, file:PATH; or IDMINT_STORE (the default store of idmint). NAME=URL adds "
             "a store, whose sources are NAME/SOURCE; may be repeated")
      ->type_name("URL")
      ->allow_extra_args(false);
  app.add_option("--also", line.also,
                 "A store to which sequences were moved (idmint move); or IDMINT_ALSO, separated "
                 "by blanks; may be repeated")
      ->type_name("URL")
      ->allow_extra_args(false);
  app.add_option("--over", line.over,
                 "For a sequence over several stores: replaces a URL of its definition "
                 "that is old or lacks a password; or IDMINT_OVER, separated by blanks; may "
                 "be repeated")
      ->type_name("URL")
      ->allow_extra_args(false);
  app.add_option("--redis", line.redis,
                 "Where to listen for clients of Redis: ADDRESS:PORT, tls:ADDRESS:PORT or "
                 "unix:PATH; may be repeated (127.0.0.1:7379)")
      ->type_name("ADDRESS")
      ->allow_extra_args(false);
  app.add_option("--http", line.http,
                 "Where to listen for HTTP: ADDRESS:PORT, tls:ADDRESS:PORT or unix:PATH; may be "
                 "repeated (127.0.0.1:7380)")
      ->type_name("ADDRESS")
      ->allow_extra_args(false);

  std::string token;
  std::vector<std::string> allow;
  CLI::App* const make = app.add_subcommand("token", "Make a token, and its table for the file");
  make->footer(kTokenFooter);
  make->add_option("NAME", token, "Its name in logs and messages")->required()->type_name("");
  make->add_option("--allow", allow,
                   "What it may do: verbs and a pattern of sources, as in \"next,peek orders*\"; "
                   "may be repeated. Verbs: next, peek, raise, create, extend, retire, lease, "
                   "metrics, all (default: \"next *\")")
      ->type_name("RIGHT")
      ->allow_extra_args(false);

  Probe asked;
  CLI::App* const ask = app.add_subcommand("probe", "Ask the daemon of this host if it is ready");
  ask->fallthrough();  // for --config
  ask->footer(kProbeFooter);
  ask->add_option("ADDRESS", asked.address,
                  "Its HTTP address: ADDRESS:PORT, tls:ADDRESS:PORT or unix:PATH")
      ->type_name("");
  ask->add_flag(
      "--live", asked.live,
      "Ask whether it serves, even if a store does not answer: for what would restart it");
  ask->add_option("--timeout", asked.timeout, "How many seconds it may take, 1 to 60 (6)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 60));
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp&) {
    return print(fitted(app.help(), columns_of(STDOUT_FILENO).value_or(kHelpColumns)));
  } catch (const CLI::CallForVersion& version) {
    return print(version.what() + std::string("\n"));
  } catch (const CLI::ParseError& error) {
    if (const std::optional<Error> meant = word_meant(words, app)) return fail_with(*meant, false);
    const CLI::App* const command = make->parsed() ? make : ask->parsed() ? ask : nullptr;
    const auto at =
        command == nullptr ? words.end() : std::ranges::find(words, command->get_name());
    const std::string wrong =
        at != words.end()
            ? wrong_usage(error.what(), *command, std::span(at + 1, words.end()),
                          "idmintd " + command->get_name())
            : wrong_usage(error.what(), app, words.subspan(1), "idmintd", kMeantByDaemon);
    return fail_with({Code::kInvalidArgument, wrong}, false);
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets variables here
  if (const char* const config = std::getenv("IDMINTD_CONFIG");
      line.config.empty() && config != nullptr)
    line.config = config;
  if (make->parsed()) {
    if (allow.empty()) allow.emplace_back("next *");
    return print_token(token, allow);
  }
  if (ask->parsed()) return print_probe(line, std::move(asked));
  return serve(line);
}

}  // namespace
}  // namespace idmint::server

int main(int argc, char** argv) { return idmint::run_program(argc, argv, idmint::server::run); }
