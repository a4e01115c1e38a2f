// How fast idmint-restore loads a base backup: 500,000 documents of 200 bytes with one index beside
// that of _id, in one collection and in four, from a folder, into a standalone mongod with a cache
// of 1 GB, as it starts one for --spare: with its journal, and inserts that are acknowledged
// without waiting for the disk. Beside it the limit of this machine: a bare loop of insertMany by
// libmongoc, 1000 documents at a time from the mapped file, and createIndexes. The median of three,
// each with a new mongod. Or with other sizes, one collection and 4 writers, and as many runs:
//
//     load_bench DOCUMENTS BYTES INDEXES [RUNS]     20000000 500 3 1
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/restore_work.h"
#include "restore/backup/base.h"
#include "restore/backup/writer.h"
#include "restore/replay/index_catalog.h"
#include "restore/replay/load.h"
#include "restore/replay/record.h"
#include "tests/fakes/temp_folder.h"
#include "tests/servers/mongo.h"

namespace idmint::restore {
namespace {

constexpr int kBatch = 1000;

struct Size {
  std::int32_t documents = 500'000;  // of all collections
  int bytes = 200;
  int indexes = 1;
  int runs = 3;
};

void make_base(const std::string& path, int collections, Size size) {
  std::vector<CollectionFacts> all;
  for (int c = 0; c < collections; ++c) all.push_back(collection_of_bench(c, size.indexes));
  const auto writer = need(write_backup({.path = path, .server_version = "6.0.5"}, all));
  for (std::size_t c = 0; c < all.size(); ++c) {
    need(writer->begin(c));
    for (std::int32_t id = 0; id < size.documents / collections; ++id) {
      const Bson document = document_of(id, size.bytes, size.indexes);
      put(*writer, c, document.view());
    }
    need(writer->end(c));
  }
  need(writer->finish({}));
}

// The documents of a collection, all of one size, in its file.
class MappedDocuments {
 public:
  MappedDocuments(const std::string& path, int bytes)
      : bytes_(static_cast<std::size_t>(bytes)), length_(std::filesystem::file_size(path)) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    data_ = ::mmap(nullptr, length_, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    if (data_ == MAP_FAILED) std::abort();
  }
  ~MappedDocuments() { ::munmap(data_, length_); }
  MappedDocuments(const MappedDocuments&) = delete;
  MappedDocuments& operator=(const MappedDocuments&) = delete;

  [[nodiscard]] std::size_t size() const { return length_ / bytes_; }
  void get(std::size_t i, bson_t* document) const {
    bson_init_static(document, static_cast<const std::uint8_t*>(data_) + i * bytes_, bytes_);
  }

 private:
  const std::size_t bytes_;
  const std::size_t length_;
  void* data_ = nullptr;
};

struct Parts {
  Cost check{};
  Cost load{};
  Cost index{};
  double megabytes = 0;  // the most memory of the process
  [[nodiscard]] double seconds() const { return load.seconds + index.seconds; }
};

void build(Server& server, const BaseBackup& base) {
  IndexCatalog catalog;
  for (const CollectionFacts& each : base.collections()) {
    for (const Bson& index : each.indexes)
      catalog.add(each.database + "." + each.name, index.view());
  }
  need(build_indexes(server, catalog, {}));
}

Parts ours(const BaseBackup& base, unsigned writers) {
  forget_most_memory();
  servers::MongoServer spare;
  Server target = need(Server::connect(spare.url("")));
  const Bson fingerprint = Bson("of", "bench");
  Record record = need(Record::begin(target, Document::of(fingerprint.get())));
  Parts parts;
  parts.check =
      cost_of(target, [&] { need(base.check([](std::uint64_t) -> Result<void> { return {}; })); });
  parts.load = cost_of(target, [&] {
    need(load_base(base, target, record, {.writers = writers, .note_every = kNoteLoadEvery}, {}));
  });
  parts.index = cost_of(target, [&] { build(target, base); });
  parts.megabytes = most_memory();
  return parts;
}

void insert_all(Server& server, const std::string& name, const MappedDocuments& documents,
                std::atomic<std::size_t>& next) {
  mongoc_collection_t* const collection =
      mongoc_client_get_collection(server.client(), "bench", name.c_str());
  const Bson options = Bson("ordered", false, "validate", false);
  bson_t batch[kBatch];
  const bson_t* pointers[kBatch];
  for (std::size_t at = next.fetch_add(kBatch); at < documents.size();
       at = next.fetch_add(kBatch)) {
    const std::size_t size = std::min<std::size_t>(kBatch, documents.size() - at);
    for (std::size_t i = 0; i < size; ++i) {
      documents.get(at + i, &batch[i]);
      pointers[i] = &batch[i];
    }
    bson_error_t error{};
    if (!mongoc_collection_insert_many(collection, pointers, size, options.get(), nullptr, &error))
      need<void>(std::unexpected(told("insert", error)));
  }
  mongoc_collection_destroy(collection);
}

Parts bare(const BaseBackup& base, const std::string& path, unsigned writers, Size size) {
  std::deque<MappedDocuments> documents;
  for (const CollectionFacts& each : base.collections())
    documents.emplace_back(path + "/bench/" + each.name + ".bson", size.bytes);
  servers::MongoServer spare;
  Server target = need(Server::connect(spare.url("")));
  std::vector<std::atomic<std::size_t>> next(documents.size());
  Parts parts;
  parts.load = cost_of(target, [&] {
    std::vector<std::jthread> threads;
    for (unsigned w = 0; w < writers; ++w)
      threads.emplace_back([&, w, server = std::make_shared<Server>(need(target.another()))] {
        for (std::size_t i = 0; i < next.size(); ++i) {
          const std::size_t c = (i + w) % next.size();
          insert_all(*server, base.collections()[c].name, documents[c], next[c]);
        }
      });
  });
  parts.index = cost_of(target, [&] { build(target, base); });
  return parts;
}

template <class Work>
void measure(const std::string& what, Size size, const Work& work) {
  std::vector<Parts> all;
  for (int run = 0; run < size.runs; ++run) all.push_back(work());
  std::ranges::sort(all, {}, &Parts::seconds);
  const Parts& median = all[all.size() / 2];
  std::printf(
      "%-42s %6.0f documents/s (%.0f to %.0f): load %.2f s (processor: ours %.2f, mongod "
      "%.2f), index %.2f s (mongod %.2f), check before it %.2f s; %.0f MB; load %s\n",
      what.c_str(), size.documents / median.seconds(), size.documents / all.back().seconds(),
      size.documents / all.front().seconds(), median.load.seconds, median.load.ours,
      median.load.servers, median.index.seconds, median.index.servers, median.check.seconds,
      median.megabytes, load_average().c_str());
  std::fflush(stdout);
}

void measure(int collections, Size size, const std::vector<unsigned>& writers) {
  fakes::TempFolder folder;
  const std::string path = folder.path("base");
  make_base(path, collections, size);
  const std::unique_ptr<BaseBackup> base = need(open_base(path));
  const std::string of = std::to_string(collections) + " collections, ";
  for (const unsigned each : writers) {
    const std::string by = std::to_string(each) + " writers, ";
    measure(of + by + "restore", size, [&] { return ours(*base, each); });
    measure(of + by + "bare insertMany", size, [&] { return bare(*base, path, each, size); });
  }
}

}  // namespace
}  // namespace idmint::restore

int main(int argc, char** argv) {
  using idmint::restore::measure;
  if (argc >= 4) {
    measure(1,
            {.documents = std::stoi(argv[1]),
             .bytes = std::stoi(argv[2]),
             .indexes = std::stoi(argv[3]),
             .runs = argc > 4 ? std::stoi(argv[4]) : 3},
            {4});
    return 0;
  }
  for (const int collections : {1, 4}) measure(collections, {}, {1, 2, 4});
}
